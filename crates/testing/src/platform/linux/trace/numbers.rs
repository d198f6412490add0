//! The calls of the Linux kernel on `x86_64` by number: their names, and what kind each of them is.
//!
//! A call that is in none of the lists is unknown on purpose: a run that makes it fails, rather than
//! that a change of files goes by unseen.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of the first call of [`LATER`].
const LATER_FIRST: usize = 424;

/// What a run does about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody has said yet what it does.
    Unknown,
    /// It changes no files that last.
    Harmless,
    /// It ends threads: it must not overtake a change that another thread has begun.
    Ends,
    /// It reads files or asks about them.
    Read,
    /// It may change files.
    Change,
}

/// The name and the kind of the call with this number.
pub(super) fn lookup(number: u64) -> (&'static str, Kind) {
    static TABLE: LazyLock<Vec<(&str, Kind)>> = LazyLock::new(table);
    let found = usize::try_from(number).ok().and_then(|number| TABLE.get(number));
    found.copied().unwrap_or(("of an unknown number", Kind::Unknown))
}

fn table() -> Vec<(&'static str, Kind)> {
    let mut names: Vec<&str> = EARLIER.split_whitespace().collect();
    names.resize(LATER_FIRST, "of an unknown number");
    names.extend(LATER.split_whitespace());
    let lists = [
        (HARMLESS, Kind::Harmless),
        (ENDS, Kind::Ends),
        (READ, Kind::Read),
        (CHANGE, Kind::Change),
    ];
    let kinds: HashMap<&str, Kind> = lists
        .into_iter()
        .flat_map(|(list, kind)| list.split_whitespace().map(move |name| (name, kind)))
        .collect();
    let kind = |name: &str| kinds.get(name).copied().unwrap_or(Kind::Unknown);
    names.into_iter().map(|name| (name, kind(name))).collect()
}

/// Calls that may change files, or hide a change.
const CHANGE: &str = "\
    open openat openat2 creat write pwrite64 writev pwritev pwritev2 copy_file_range sendfile splice \
    fallocate truncate ftruncate mkdir mkdirat mknod mknodat symlink symlinkat link linkat rename \
    renameat renameat2 unlink unlinkat rmdir chmod fchmod fchmodat fchmodat2 chown fchown lchown \
    fchownat utime utimes futimesat utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr \
    fremovexattr fsync fdatasync sync_file_range syncfs sync mmap ioctl bind io_uring_setup";

/// Calls that read files or ask about them.
const READ: &str = "\
    read pread64 readv preadv preadv2 getdents getdents64 stat lstat fstat newfstatat statx readlink \
    readlinkat access faccessat faccessat2 getxattr lgetxattr fgetxattr listxattr llistxattr \
    flistxattr statfs fstatfs";

/// Calls that end threads.
const ENDS: &str = "\
    exit exit_group execve execveat";

/// Calls that change no files: memory, time, signals, processes, sockets, waiting.
const HARMLESS: &str = "\
    close poll lseek mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn pipe select \
    sched_yield mremap msync mincore madvise dup dup2 pause nanosleep getitimer alarm setitimer \
    getpid socket connect accept sendto recvfrom sendmsg recvmsg shutdown listen getsockname \
    getpeername socketpair setsockopt getsockopt clone fork vfork wait4 kill uname fcntl flock \
    getcwd chdir fchdir umask gettimeofday getrlimit getrusage sysinfo times getuid getgid setuid \
    setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups \
    setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset \
    rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack personality ustat \
    getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler \
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall \
    munlockall prctl arch_prctl setrlimit gettid readahead tkill time futex sched_setaffinity \
    sched_getaffinity epoll_create set_tid_address restart_syscall fadvise64 timer_create \
    timer_settime timer_gettime timer_getoverrun timer_delete clock_gettime clock_getres \
    clock_nanosleep epoll_wait epoll_ctl tgkill mbind set_mempolicy get_mempolicy waitid ioprio_set \
    ioprio_get inotify_init inotify_add_watch inotify_rm_watch pselect6 ppoll set_robust_list \
    get_robust_list tee vmsplice epoll_pwait signalfd timerfd_create eventfd timerfd_settime \
    timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 \
    rt_tgsigqueueinfo recvmmsg prlimit64 sendmmsg getcpu process_vm_readv kcmp sched_setattr \
    sched_getattr seccomp getrandom memfd_create membarrier mlock2 pkey_mprotect pkey_alloc \
    pkey_free rseq pidfd_send_signal pidfd_open clone3 close_range process_madvise epoll_pwait2 \
    landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret futex_waitv \
    set_mempolicy_home_node cachestat map_shadow_stack futex_wake futex_wait futex_requeue statmount \
    listmount lsm_get_self_attr lsm_list_modules mseal getxattrat listxattrat";

/// All calls from number 0 on.
const EARLIER: &str = "\
    read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction \
    rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield \
    mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm \
    setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind \
    listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit \
    wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync \
    fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink \
    symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo \
    times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid \
    setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid \
    setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend \
    sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs getpriority setpriority \
    sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max \
    sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup \
    modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday \
    mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm create_module \
    init_module delete_module get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg \
    afs_syscall tuxcall security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr \
    fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex \
    sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit \
    io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old \
    remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create \
    timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime \
    clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind \
    set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify \
    mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init \
    inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat \
    newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll \
    unshare set_robust_list get_robust_list splice tee sync_file_range vmsplice move_pages utimensat \
    epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 \
    signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo \
    perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at \
    open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv process_vm_writev \
    kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create \
    kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 \
    pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq";

/// All calls from number [`LATER_FIRST`] on.
const LATER: &str = "\
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen \
    fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 \
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule \
    landlock_restrict_self memfd_secret process_mrelease futex_waitv set_mempolicy_home_node \
    cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount \
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat \
    removexattrat open_tree_attr";

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::*;

    #[test]
    fn numbers_have_their_names() {
        for (number, name, kind) in [
            (libc::SYS_read, "read", Kind::Read),
            (libc::SYS_statx, "statx", Kind::Read),
            (libc::SYS_renameat2, "renameat2", Kind::Change),
            (libc::SYS_fchmodat2, "fchmodat2", Kind::Change),
            (libc::SYS_exit_group, "exit_group", Kind::Ends),
            (libc::SYS_rseq, "rseq", Kind::Harmless),
            (libc::SYS_io_uring_enter, "io_uring_enter", Kind::Unknown),
            (libc::SYS_mount, "mount", Kind::Unknown),
        ] {
            assert_eq!(lookup(u64::try_from(number).unwrap()), (name, kind));
        }
        assert_eq!(lookup(400), ("of an unknown number", Kind::Unknown));
        assert_eq!(lookup(u64::MAX).1, Kind::Unknown);
    }

    #[test]
    fn every_word_of_a_list_is_the_name_of_a_call() {
        let table = table();
        for word in [HARMLESS, ENDS, READ, CHANGE].iter().flat_map(|list| list.split_whitespace()) {
            assert!(table.iter().any(|(name, _)| *name == word), "{word}");
        }
    }
}
