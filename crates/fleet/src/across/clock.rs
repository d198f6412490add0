//! Clocks. A host's clock was read somewhere between the question and the answer, so all that is known of how
//! far it is ahead of ours is an interval. Clocks that agree have intervals with a point in common; the point
//! that most have in common is taken for the right time, so that one machine which is wrong, be it this one,
//! is told alone.

use host::wire::Level;
use jiff::Timestamp;

use super::Finding;

/// An answer that took so long tells little, in milliseconds.
const SLOW_MS: i64 = 60_000;

const FIX: &str =
    "let chrony, ntpd or systemd-timesyncd keep the clock, from the same servers everywhere";

/// What is known of a host's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) host: usize,
    /// By this machine's clock.
    pub(super) asked: Timestamp,
    /// By this machine's clock.
    pub(super) answered: Timestamp,
    /// By the host's.
    pub(super) time: Timestamp,
}

/// How far a clock is ahead of this machine's, in milliseconds: between these.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    least: i64,
    most: i64,
}

impl Ahead {
    fn of(measured: &Measured) -> Self {
        // Times are written down in whole milliseconds.
        let least = measured.time.as_millisecond() - measured.answered.as_millisecond() - 1;
        let most = measured.time.as_millisecond() - measured.asked.as_millisecond() + 1;
        Self { least, most: most.max(least) }
    }

    /// How far it is from a moment for certain: more than zero is after it.
    fn from(self, moment: i64) -> i64 {
        match () {
            () if self.least > moment => self.least - moment,
            () if self.most < moment => self.most - moment,
            () => 0,
        }
    }
}

/// Whose clocks are further off than `limit` milliseconds.
pub(super) fn judge(
    measured: &[Measured],
    limit: u64,
    name: &dyn Fn(usize) -> String,
) -> Vec<Finding> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX / 4);
    let clocks: Vec<(usize, Ahead)> =
        measured.iter().map(|measured| (measured.host, Ahead::of(measured))).collect();
    let agreed = agreed(&clocks, limit);
    let right = agreed.unwrap_or(0);
    let whom = if agreed.is_some() { "most others" } else { "this machine's" };

    let mut findings = Vec::new();
    let (mut early, mut late, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    for (host, ahead) in &clocks {
        let off = ahead.from(right);
        match () {
            () if off > limit => early.push((*host, off)),
            () if off < -limit => late.push((*host, off)),
            () if ahead.most - ahead.least > SLOW_MS.max(limit) => slow.push(*host),
            () => {}
        }
    }
    for (off, way) in [(early, "ahead of"), (late, "behind")] {
        let times = off.iter().map(|(_, off)| off.unsigned_abs());
        let (Some(least), Some(most)) = (times.clone().min(), times.max()) else { continue };
        let far = match (words(least), words(most)) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        findings.push(Finding {
            name: "clock",
            level: Level::Error,
            hosts: off.iter().map(|(host, _)| name(*host)).collect(),
            to: Vec::new(),
            found: format!("the clock is {far} {way} {whom}"),
            fix: FIX.to_owned(),
        });
    }
    // Half of the limit is in what was agreed on.
    if right.abs() > limit / 2 {
        let way = if right > 0 { "behind" } else { "ahead of" };
        findings.push(Finding {
            name: "clock",
            level: Level::Warning,
            hosts: Vec::new(),
            to: Vec::new(),
            found: format!(
                "the clock of this machine is {} {way} those of most hosts",
                words(right.unsigned_abs())
            ),
            fix: FIX.to_owned(),
        });
    }
    if agreed.is_none() && !findings.is_empty() {
        let found = "clocks differ, and there is no time on which most of them agree".to_owned();
        let fix = "look at the clock of this machine first".to_owned();
        let (name, level) = ("clock", Level::Warning);
        findings.push(Finding { name, level, hosts: Vec::new(), to: Vec::new(), found, fix });
    }
    if !slow.is_empty() {
        findings.push(Finding {
            name: "clock",
            level: Level::Notice,
            hosts: slow.into_iter().map(name).collect(),
            to: Vec::new(),
            found: "the answer took so long that nothing is known of the clock".to_owned(),
            fix: "run it again".to_owned(),
        });
    }
    findings
}

/// The time, in milliseconds ahead of this machine's, on which more than half of all clocks agree, this
/// machine's among them; the one nearest to its own.
fn agreed(clocks: &[(usize, Ahead)], limit: i64) -> Option<i64> {
    // Clocks that are as right as they must be may still differ.
    let room = limit / 2;
    let own = Ahead { least: 0, most: 0 };
    let all = clocks.iter().map(|(_, ahead)| *ahead).chain([own]);
    let mut edges: Vec<(i64, i32)> =
        all.flat_map(|ahead| [(ahead.least - room, 1), (ahead.most + room, -1)]).collect();
    // Those that begin at a point where others end have it in common with them.
    edges.sort_by_key(|(at, change)| (*at, -change));
    let (mut now, mut best) = (0, 0);
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for (place, (at, change)) in edges.iter().enumerate() {
        now += change;
        if *change > 0 && now >= best {
            if now > best {
                spans.clear();
            }
            best = now;
            let end = edges[place + 1..].first().map_or(*at, |(end, _)| *end);
            spans.push((*at, end));
        }
    }
    let is_most = usize::try_from(best).is_ok_and(|best| best * 2 > clocks.len() + 1);
    let nearest = spans.into_iter().map(|(from, to)| 0.clamp(from, to));
    nearest.min_by_key(|at| at.abs()).filter(|_| is_most)
}

/// A time span as people say it.
fn words(milliseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let fits = UNITS.into_iter().find(|(size, _)| milliseconds >= 2 * size);
    fits.map_or_else(
        || format!("{milliseconds} ms"),
        |(size, unit)| format!("{} {unit}", milliseconds / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks of which each was asked at second 1000 and answered after so many milliseconds with a time
    /// that is so many milliseconds off.
    fn told(clocks: &[(i64, i64)]) -> Vec<String> {
        let at = |milliseconds| Timestamp::from_millisecond(1_000_000 + milliseconds).unwrap();
        let measured: Vec<Measured> = clocks
            .iter()
            .enumerate()
            .map(|(host, (took, off))| Measured {
                host,
                asked: at(0),
                answered: at(*took),
                time: at(took / 2 + off),
            })
            .collect();
        let findings = judge(&measured, 500, &|host| format!("h{host}"));
        let line = |found: &Finding| format!("{} | {}", found.hosts.join(" "), found.found);
        findings.iter().map(line).collect()
    }

    #[test]
    fn clocks_that_agree_as_well_as_they_must_are_no_finding() {
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(told(&[(20, 0), (300, 40), (20, -200), (5_000, 100), (20, 220)]), [""; 0]);
    }

    #[test]
    fn those_that_are_off_are_told_and_no_others() {
        let clocks = [(20, 0), (20, 3_000), (20, 10), (20, 400_000), (20, -90_000_000), (20, 0)];
        assert_eq!(
            told(&clocks),
            [
                "h1 h3 | the clock is 2 s to 6 min ahead of most others",
                "h4 | the clock is 24 h behind most others",
            ]
        );
    }

    #[test]
    fn a_wrong_clock_of_this_machine_is_told_and_nobody_else_is_blamed() {
        let clocks = [(20, 300_000), (20, 300_100), (40, 299_990), (20, 300_000)];
        assert_eq!(
            told(&clocks),
            [" | the clock of this machine is 4 min behind those of most hosts"]
        );
        let mut clocks = clocks.to_vec();
        clocks.push((20, 0));
        assert_eq!(
            told(&clocks),
            [
                "h4 | the clock is 4 min behind most others",
                " | the clock of this machine is 4 min behind those of most hosts",
            ]
        );
    }

    #[test]
    fn where_nobody_agrees_nobody_is_taken_for_right() {
        assert_eq!(
            told(&[(20, 60_000)]),
            [
                "h0 | the clock is 59 s ahead of this machine's",
                " | clocks differ, and there is no time on which most of them agree",
            ]
        );
    }

    #[test]
    fn what_an_answer_that_took_long_does_not_tell_is_not_guessed() {
        let clocks = [(20, 0), (20, 0), (120_000, 30_000)];
        assert_eq!(
            told(&clocks),
            ["h2 | the answer took so long that nothing is known of the clock"]
        );
        // Unless it is further off than it took.
        assert_eq!(
            told(&[(20, 0), (20, 0), (120_000, 200_000)]),
            ["h2 | the clock is 2 min ahead of most others"]
        );
    }
}
