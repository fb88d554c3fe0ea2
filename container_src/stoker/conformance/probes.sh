#!/bin/sh
# The probes for an image without Python: one function each, doing what the script of the same
# check does in Python. The host adds a last line that calls one of them.
#
# Only sh's own commands where they do, else cat, date, dd, ls, mkdir, mv, od, rm, sha256sum and
# sleep. Files that the host waits for get their name by mv, when they are whole.

ml=/opt/ml
told=$ml/output/data/probe

# Not every sleep knows fractions.
pause() { sleep 0.1 2>/dev/null || sleep 1; }

wait_for_ever() { while :; do pause; done; }

# tell KEY=TEXT...: what was found, each ended by NUL.
tell() {
    for fact; do printf '%s\0' "$fact"; done > "$told.facts.tmp"
    mv "$told.facts.tmp" "$told.facts"
}

# The environment as it was handed over: the shell drops names that are none for it.
note_environment() { cat "/proc/$$/environ" > "$told.environ"; }

# ── entry ───────────────────────────────────────────────────────────────────────────────────────
hello() { echo 'hello from the probe'; }

first_process() {
    read -r name < /proc/1/comm
    echo "PROBE main=$name"
}

interpreter() {
    echo "PROBE python=/bin/sh"
    echo "PROBE path=$PATH"
    echo "PROBE arguments=['$*']"
    exit 5
}

user() {
    while read -r name uid _; do
        if [ "$name" = Uid: ]; then echo "PROBE uid=$uid"; fi
    done < /proc/self/status
}

# The field e_machine of the shell's own ELF header.
machine() {
    # shellcheck disable=SC2046 # two numbers are wanted
    set -- $(dd if="/proc/$$/exe" bs=1 skip=18 count=2 2>/dev/null | od -An -tu1)
    if [ $# = 2 ]; then echo "PROBE machine=$(($1 + 256 * $2))"; fi
}

# ── input ───────────────────────────────────────────────────────────────────────────────────────
tell_environment() {
    note_environment
    for argument; do printf '%s\0' "$argument"; done > "$told.argv"
    tell
}

stay() {
    : > $ml/output/data/runs
    turns=0
    while [ ! -e $ml/input/data/go ] && [ $turns -lt 1000 ]; do
        pause
        turns=$((turns + 1))
    done
}

use() {
    text=$(cat $ml/input/data/train/part.csv; echo .)
    writable=
    if (: > $ml/input/data/train/written-by-the-script) 2>/dev/null; then writable=yes; fi
    tell "text=${text%.}" "writable=$writable" "channels=$SM_CHANNELS"
}

# Both ends of the pipe, to show that no process has read from it.
pipe() {
    echo 'PROBE runs'
    printf record > $ml/input/data/train_0 &
    tell "text=$(cat $ml/input/data/train_0)"
}

list() {
    echo 'PROBE runs'
    tell "names=$(ls $ml/input/data/control)"
}

neighbour() {
    case $0 in
        */*) here=${0%/*} ;;
        *) here=. ;;
    esac
    # shellcheck disable=SC1091 # the host writes it
    . "$here/neighbour.sh"
    tell "name=$NAME"
}

# ── running ─────────────────────────────────────────────────────────────────────────────────────
# The wall clock in hundredths, of a date that knows only seconds: counted from a second's begin,
# which is taken as seen if it was seen within a tenth; a busy machine gets five tries.
start_clock() {
    second=$(date +%s) tries=0
    read_uptime
    while :; do
        earlier=$uptime
        now=$(date +%s)
        read_uptime
        [ "$now" != "$second" ] || continue
        second=$now begun=$earlier tries=$((tries + 1))
        if [ $((uptime - earlier)) -le 10 ] || [ $tries = 5 ]; then return; fi
    done
}

read_uptime() {
    read -r uptime _ < /proc/uptime
    uptime=${uptime%.*}${uptime#*.}
}

print_time() {
    read_uptime
    passed=$((uptime - begun))
    printf 'PROBE slow=%d.%02d\n' $((second + passed / 100)) $((passed % 100))
}

talker() {
    start_clock
    for _ in 1 2 3 4 5 6 7 8; do
        print_time
        pause
    done
    sleep 3
    number=0
    while [ $number -lt 1500 ]; do
        loss=$((1000000 / (number + 1)))
        print_loss out $number
        if [ $((number % 5)) = 0 ]; then print_loss err $((number / 5)) >&2; fi
        if [ $((number % 50)) = 0 ]; then pause; fi
        number=$((number + 1))
    done
}

print_loss() {
    printf 'PROBE %s=%d loss: %d.%06d été end\n' "$1" "$2" $((loss / 1000000)) $((loss % 1000000))
}

bar() {
    terminal=False
    if [ -t 1 ] || [ -t 2 ]; then terminal=True; fi
    echo "PROBE terminal=$terminal"
    step=0 drawn=
    while [ $step -lt 30 ]; do
        printf '\r%3d%%|%-30s| %d/30 [bar]' $step "$drawn" $step >&2
        if [ $((step % 3)) = 0 ]; then echo "PROBE metric=$step end"; fi
        pause
        step=$((step + 1)) drawn=$drawn#
    done
    printf '\nPROBE after=bar end\n' >&2
}

silent() {
    sleep 5
    : > $ml/model/done
}

writer() {
    : > "${TMPDIR:-/tmp}/probe" && rm "${TMPDIR:-/tmp}/probe" || exit 1
    for folder in model output/data checkpoints; do
        echo x > "$ml/$folder/probe" || exit 1
    done
    echo 'PROBE written=all'
}

handler() {
    trap save TERM
    : > $ml/checkpoints/ready
    wait_for_ever
}

save() {
    echo begun >> $ml/checkpoints/begun
    sleep "$PROBE_SECONDS"
    printf done > $ml/checkpoints/done
    exit 42
}

quitter() {
    trap 'exit 0' TERM
    : > $ml/checkpoints/ready
    wait_for_ever
}

stubborn() {
    trap 'write_whole late' TERM
    write_whole early
    : > $ml/checkpoints/ready
    wait_for_ever
}

write_whole() {
    for folder in "${SM_MODEL_DIR:-$ml/model}" "${SM_OUTPUT_DATA_DIR:-$ml/output/data}" \
        "${SM_CHECKPOINT_DIR:-$ml/checkpoints}"; do
        number=0
        while [ $number -lt 1000 ]; do
            printf whole
            number=$((number + 1))
        done > "$folder/$1"
    done
}

peer() {
    echo "PROBE current=$SM_CURRENT_HOST"
    echo "PROBE hosts=$SM_HOSTS"
    echo "PROBE leader=$SM_MASTER_ADDR"
    read -r here < /proc/sys/kernel/hostname
    : > "/shared/$here"
    turns=0
    while [ $turns -lt 600 ] && ! { [ -e /shared/algo-1 ] && [ -e /shared/algo-2 ]; }; do
        pause
        turns=$((turns + 1))
    done
    if [ "$here" = algo-2 ]; then exit 3; fi
}

network() {
    note_environment
    tell "devices=$(ls /sys/class/infiniband 2>/dev/null)"
}

# ── output ──────────────────────────────────────────────────────────────────────────────────────
end() {
    echo "PROBE end=$PROBE_END"
    case $PROBE_END in
        SIG*) kill "-${PROBE_END#SIG}" $$ ;;
    esac
    exit "$PROBE_END"
}

fill_the_disk_and_fail() {
    cat /dev/zero > $ml/output/filling
    echo 'the disk is full' >&2
    exit 1
}

warn_then_fail() {
    echo 'PROBE begins'
    echo 'Warning: Error codes are not stored, no Exception handling is set up' >&2
    step=0 long=
    while [ $step -lt 50 ]; do
        echo "step $step"
        step=$((step + 1)) long=${long}é世é世é世é世é世é世é世é世
    done
    echo "probe-cause: column 'price' is missing $long$long" >&2
    exit 1
}

own_failure() {
    mkdir -p $ml/output
    printf 'probe-own-words: the table of prices is empty' > $ml/output/failure
    exit 3
}

write_nothing() { echo 'PROBE done'; }

write_weights() { dd if=/dev/zero of=$ml/model/weights.bin bs="$1" count=1 2>/dev/null; }

write_and_fail() {
    write_weights 1000
    exit 1
}

write_and_wait() {
    write_weights 1000
    trap 'exit 0' TERM
    : > $ml/probe-ready
    wait_for_ever
}

write_a_megabyte() { write_weights 1048576; }

write_a_report() {
    printf 'epoch,loss\n1,0.5\n' > $ml/output/data/report.csv
    exit "$PROBE_END"
}

train_a_little() { echo 'PROBE trained with no torch'; }

look_and_save() {
    cd $ml/checkpoints || exit 1
    for file in * */*; do
        [ -f "$file" ] || continue
        digest=$(sha256sum "$file")
        echo "PROBE file=$file hash=${digest%% *}"
    done
    printf 'step 3' > step-3.sagemaker-ignore
    mv step-3.sagemaker-ignore step-3.bin
    exit "$PROBE_END"
}

churn() {
    until=$(($(date +%s) + 3)) count=0
    while [ "$(date +%s)" -lt $until ]; do
        for folder in $ml/checkpoints $ml/output $ml/output/data $ml/model; do
            mkdir "$folder/part-$count"
            echo x > "$folder/part-$count/shard.tmp"
            mv "$folder/part-$count/shard.tmp" "$folder/part-$count/shard.bin"
            rm -r "$folder/part-$count"
        done
        count=$((count + 1))
    done
    echo "PROBE rounds=$count"
    if [ "$PROBE_END" != 0 ]; then
        rm -r $ml/output
        echo 'failing without an output folder' >&2
        exit 1
    fi
}

events() {
    folder=${SM_TENSORBOARD_DIR:-$ml/output/tensorboard}
    mkdir -p "$folder"
    trap last_words TERM
    printf probe-first > "$folder/events.out.tfevents.probe"
    printf '%s\n%s' "$folder" 'a plain file' > $ml/probe-ready.part
    mv $ml/probe-ready.part $ml/probe-ready
    wait_for_ever
}

last_words() {
    printf probe-last >> "$folder/events.out.tfevents.probe"
    exit 0
}

count() {
    file=$ml/checkpoints/step.txt step=0 goal=1000000 stopping=
    if [ -e $file ]; then
        step=$(cat $file)
        goal=$((step + 2))
    fi
    echo "PROBE resumed=$step."
    trap 'stopping=yes' TERM
    while [ "$step" -lt $goal ] && [ -z "$stopping" ]; do
        step=$((step + 1))
        printf %d $step > $file.sagemaker-ignore
        mv $file.sagemaker-ignore $file
        echo "PROBE step=$step."
        pause
    done
}

# ── hygiene ─────────────────────────────────────────────────────────────────────────────────────
# Time in the queue for a processor is the busy machine's, not the image's.
first_line() {
    read_uptime
    read -r _ queued _ < "/proc/$$/schedstat" || queued=0
    first=0
    if [ $$ != 1 ]; then read -r _ first _ < /proc/1/schedstat || first=0; fi
    queued=$((queued + first - ${PROBE_QUEUED_NANOSECONDS:-0}))
    passed=$((uptime - ${PROBE_BOOT_SECONDS%.*}${PROBE_BOOT_SECONDS#*.}))
    milliseconds=$((passed * 10 - queued / 1000000))
    if [ $milliseconds -lt 0 ]; then milliseconds=0; fi
    printf 'PROBE seconds=%d.%03d\n' $((milliseconds / 1000)) $((milliseconds % 1000))
}

# The subshell that has started it is gone before the sleep is.
orphans() {
    pids= turns=0
    for _ in 1 2 3 4 5; do
        pids="$pids $(sleep 1 > /dev/null 2>&1 & echo $!)"
    done
    while :; do
        left=0 zombies=0
        for pid in $pids; do note_state "$pid"; done
        if [ $left = 0 ] || [ $turns -ge 60 ]; then break; fi
        pause
        turns=$((turns + 1))
    done
    echo 'PROBE orphans=5'
    echo "PROBE zombies=$zombies"
}

note_state() {
    { read -r line < "/proc/$1/stat"; } 2>/dev/null || return 0
    left=$((left + 1))
    case ${line##*)} in
        ' Z'*) zombies=$((zombies + 1)) ;;
    esac
}
