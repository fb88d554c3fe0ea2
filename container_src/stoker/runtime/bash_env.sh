# Read by every non-interactive bash of the image (BASH_ENV). Only the shell that SDK v3 starts as
# the container's main process replaces itself by Stoker's supervisor; any other is left alone.
case "${BASH_EXECUTION_STRING-}" in */sm_drivers/sm_train.sh*)
    if { [ "$$" = 1 ] || [ "$PPID" = 1 ]; } && [ -z "${STOKER_SUPERVISED-}" ]; then
        export STOKER_SUPERVISED=1
        exec train drivers "$BASH_EXECUTION_STRING"
    fi ;;
esac
