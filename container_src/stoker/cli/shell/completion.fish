# The completion of `stoker` for fish; made by `stoker completion`.
function __stoker_at --description 'Whether the words typed so far are this command'
    set -l words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a words $word
    end
    set -l wanted $argv
    test (count $wanted) -eq 0; and test (count $words) -eq 0; and return 0
    test (count $wanted) -gt 0; or return 1
    test "$words[1..$(count $wanted)]" = "$wanted"
end
