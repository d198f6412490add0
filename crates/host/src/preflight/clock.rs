//! Whether the kernel counts its clock as synchronised, and how wrong it may be.
//!
//! The kernel tells that to a system call that needs code which is not safe; so those are asked who
//! keep the clock, or can ask the kernel.

use package::Cancel;

use super::facts::Facts;
use super::judged::{Judged, Remedy, bad, doubt, good};

/// What somebody says of the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) is_synchronised: bool,
    /// The error that is estimated, in microseconds.
    pub(super) error_us: Option<u64>,
    /// Who says so.
    pub(super) source: &'static str,
}

impl Clock {
    /// Asks those who know, the most precise first.
    pub(super) fn read(facts: &Facts, cancel: &Cancel) -> Option<Self> {
        let run = |program: &str, arguments: &[&str]| facts.outside.run(program, arguments, cancel);
        if let Some(said) = run("chronyc", &["-c", "tracking"]).good()
            && let Some(clock) = chrony(said)
        {
            return Some(clock);
        }
        if let Some(clock) = run("adjtimex", &["--print"]).good().and_then(adjtimex) {
            return Some(clock);
        }
        if let Some(clock) = run("ntpq", &["-c", "rv"]).good().and_then(ntpd) {
            return Some(clock);
        }
        let source = "/run/systemd/timesync/synchronized";
        if facts.exists(source) {
            return Some(Self { is_synchronised: true, error_us: None, source });
        }
        // `timedatectl` knows too, but wakes a service for a while: this changes nothing.
        let source = "systemd-timesyncd";
        let is_running = run("systemctl", &["is-active", source]).good() == Some("active");
        is_running.then_some(Self { is_synchronised: false, error_us: None, source })
    }
}

/// The line of `chronyc -c tracking`: the last field is the leap status, the 11th and 12th the root
/// delay and dispersion in seconds; half of the one and all of the other are the error at most.
fn chrony(line: &str) -> Option<Clock> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let [.., status] = fields[..] else { return None };
    let seconds = |at: usize| fields.get(at)?.parse::<f64>().ok().filter(|found| *found >= 0.0);
    let error = seconds(10).zip(seconds(11)).and_then(|(delay, dispersion)| {
        let error = std::time::Duration::try_from_secs_f64(delay / 2.0 + dispersion).ok()?;
        u64::try_from(error.as_micros()).ok()
    });
    (fields.len() >= 14).then_some(Clock {
        is_synchronised: status != "Not synchronised",
        error_us: error,
        source: "chrony",
    })
}

/// What `ntpq -c rv` says: `leap_alarm` or `sync_unspec` is unsynchronised; delays are milliseconds.
fn ntpd(text: &str) -> Option<Clock> {
    let mut words = text.split([',', ' ', '\n']).filter(|word| !word.is_empty());
    if !words.clone().any(|word| word.starts_with("leap_")) {
        return None;
    }
    let value = |key: &str| {
        let found = words.clone().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
        found.parse::<f64>().ok().filter(|found| *found >= 0.0)
    };
    let error = value("rootdelay").zip(value("rootdisp")).and_then(|(delay, dispersion)| {
        let error = (delay / 2.0 + dispersion) / 1000.0;
        u64::try_from(std::time::Duration::try_from_secs_f64(error).ok()?.as_micros()).ok()
    });
    let is_synchronised = !words.any(|word| ["leap_alarm", "sync_unspec"].contains(&word));
    Some(Clock { is_synchronised, error_us: error, source: "ntpd" })
}

/// What `adjtimex --print` says: `status: 64` is unsynchronised, `esterror: 1234` microseconds.
fn adjtimex(text: &str) -> Option<Clock> {
    const UNSYNCHRONISED: u64 = 0x40;
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.trim().strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let status = value("status")?;
    let is_synchronised = status & UNSYNCHRONISED == 0;
    Some(Clock { is_synchronised, error_us: value("esterror"), source: "adjtimex" })
}

/// `timesyncd`: whether systemd's client is there and nobody else keeps the clock.
pub(super) fn judge(clock: Option<&Clock>, max_error_ms: u64, timesyncd: bool) -> Judged {
    let fix = "let chrony, ntpd or systemd-timesyncd keep it, and allow it to reach a time server";
    let service = "systemd-timesyncd.service";
    let remedy = timesyncd.then(|| {
        Remedy::new(
            &["systemctl", "enable", "--now", service],
            &["systemctl", "disable", "--now", service],
        )
    });
    let Some(Clock { is_synchronised, error_us, source }) = clock else {
        return doubt("nobody tells whether the clock is synchronised", fix).with(remedy);
    };
    if !is_synchronised {
        return bad(format!("the clock is not synchronised ({source})"), fix).with(remedy);
    }
    match error_us {
        Some(error) if *error > max_error_ms.saturating_mul(1000) => bad(
            format!(
                "the clock may be wrong by {} ms, at most {max_error_ms} ms allowed ({source})",
                error / 1000
            ),
            "wait until it settled, or use time servers that are nearer",
        ),
        Some(error) => {
            good(format!("synchronised, wrong by {} ms at most ({source})", error.div_ceil(1000)))
        }
        None => good(format!("synchronised ({source})")),
    }
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::super::judged::Level;
    use super::*;

    const CHRONY: &str = "A29FC87B,162.159.200.123,3,1700000000.1,0.000012,0.000004,0.000020,-3.5,0.01,0.05,0.020000,0.001500,64.2,Normal";
    const BUSYBOX: &str = "    mode:         0\n-o  offset:       0 us\n    maxerror:     16000000\n    esterror:     16000000\n    status:       64 (UNSYNC)\n";

    fn level(clock: Option<&Clock>, max_error_ms: u64) -> Level {
        judge(clock, max_error_ms, false).level(Severity::Error)
    }

    #[test]
    fn those_who_know_are_understood() {
        let clock = chrony(CHRONY).unwrap();
        assert_eq!((clock.is_synchronised, clock.error_us), (true, Some(11_500)));
        assert_eq!(level(Some(&clock), 100), Level::Ok);
        assert_eq!(level(Some(&clock), 10), Level::Error);
        let lost = chrony(&CHRONY.replace("Normal", "Not synchronised")).unwrap();
        assert_eq!(level(Some(&lost), 100), Level::Error);
        assert_eq!(adjtimex(BUSYBOX).map(|clock| clock.is_synchronised), Some(false));
        assert_eq!(adjtimex("unrecognized option"), None);
        assert_eq!(chrony("506 Cannot talk to daemon"), None);
        let said = "associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,\n\
            rootdelay=20.0, rootdisp=4.5, refid=192.0.2.1\n";
        let clock = ntpd(said).unwrap();
        assert_eq!((clock.is_synchronised, clock.error_us), (true, Some(14_500)));
        let lost = "associd=0 status=c016 leap_alarm, sync_unspec, 1 event, restart,\n";
        assert_eq!(ntpd(lost).map(|clock| clock.is_synchronised), Some(false));
        assert_eq!(ntpd("ntpq: read: Connection refused"), None);
        assert_eq!(level(None, 100), Level::Warning);
    }

    #[test]
    fn what_can_be_enabled_can_be_disabled() {
        let judged = judge(None, 100, true);
        assert_eq!(judged.remedies[0].run[1], "enable");
        assert_eq!(judged.remedies[0].undo[1], "disable");
    }
}
