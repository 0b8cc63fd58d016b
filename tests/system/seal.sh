#!/usr/bin/env bash
# seal.sh COMMAND...: run COMMAND as PID 1 of its own pid, mount, uts, ipc, cgroup and network namespaces, on a root
# where nothing of the host can be written but $SHARE (bound at /run/share). $PREFIX is shown read-only where it is, even
# below a home that only root may enter, so that services of other users can run the interpreter in it.
#
# DANGER: systemd on an unsealed root runs the host's own units against the real files and empties the real /tmp.
# Never boot it other than through this seal, and prove the seal with a write probe first (lab.py does both).
set -euo pipefail

share=${SHARE:?} prefix=${PREFIX:?}
cgroups=/sys/fs/cgroup
[ -f $cgroups/cgroup.controllers ] || cgroups=/sys/fs/cgroup/unified

outside() {
    cgroup=$cgroups/mcp-supervisor-lab.$$
    mkdir "$cgroup"
    SEAL_ROOT=$(mktemp -d /run/seal.XXXXXX)
    export SEAL_ROOT
    trap clean_up EXIT
    SEAL_STAGE=inside bash -c 'echo $$ >"$0/cgroup.procs"; exec unshare --pid --fork --kill-child=KILL --mount \
        --propagation private --uts --ipc --cgroup --net "$@"' "$cgroup" "$0" "$@"
}

clean_up() {
    rmdir "$SEAL_ROOT" 2>/dev/null || true
    for _ in {1..20}; do
        find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -d "$cgroup" ] || return 0
        sleep 0.1
    done
}

inside() {
    mount -t tmpfs -o size=1m,mode=755 tmpfs "$SEAL_ROOT"
    root=$SEAL_ROOT/root
    mkdir "$root"
    mount --bind / "$root"
    mount -o remount,bind,ro "$root"
    fresh_directories
    devices
    kernel_views
    enter
    ip link set lo up
    exec setpriv --bounding-set -sys_time,-sys_module,-sys_rawio,-mknod,-syslog,-sys_resource --inh-caps -all -- \
        env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/mnt LANG=C.UTF-8 "$@"
}

fresh_directories() {
    mount -t tmpfs -o mode=1777,size=256m tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755,size=256m tmpfs "$root/var"
    mount -t tmpfs -o mode=755,size=256m tmpfs "$root/run"
    mount -t tmpfs -o mode=700,size=64m tmpfs "$root/mnt"
    mkdir -p "$root"/var/{log,lib,cache,tmp} "$root/run/lock" "$root/run/share" "$root"/mnt/{upper,work,old}
    ln -s /run "$root/var/run"
    mount -t overlay overlay -o "lowerdir=/etc,upperdir=$root/mnt/upper,workdir=$root/mnt/work" "$root/etc"
    mount --bind "$share" "$root/run/share"
    case $prefix in
    /root/*)
        mount -t tmpfs -o mode=755,size=1m tmpfs "$root/root"
        mkdir -p "$root$prefix"
        mount --bind "$prefix" "$root$prefix"
        mount -o remount,bind,ro "$root$prefix"
        ;;
    esac
}

devices() {
    mount -t tmpfs -o mode=755,size=8m tmpfs "$root/dev"
    mkdir "$root"/dev/{pts,shm}
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
}

kernel_views() {
    mount -t proc proc "$root/proc"
    for part in sys sysrq-trigger irq bus; do
        if [ -e "$root/proc/$part" ]; then
            mount --bind "$root/proc/$part" "$root/proc/$part"
            mount -o remount,bind,ro "$root/proc/$part"
        fi
    done
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
}

enter() {
    cd "$root"
    pivot_root . mnt/old
    cd /
    umount -l /mnt/old
    # Without this a service's credentials are silently empty.
    mount --make-rshared /
}

"${SEAL_STAGE:-outside}" "$@"
