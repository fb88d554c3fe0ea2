# The completion of `stoker` for bash and zsh; made by `stoker completion`.
_stoker() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command='' next='' words='' at
    for ((at = 1; at < COMP_CWORD; at++)); do
        next="${command:+$command }${COMP_WORDS[at]}"
        case "$next" in @PATHS@) command=$next ;; esac
    done
    [[ $before == -* ]] || before=''
    case "$command|$before" in
    @ROWS@
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
# Anything else is the name of a file or folder, which the shell completes itself.
complete -o default -F _stoker stoker
