//! What was measured, and whether it is what is asked for.

use std::time::Duration;

use anyhow::ensure;

use super::{Cost, FAKE_HOSTS, OURS, Side};

/// What is asked of ours: how much of the cores is at work, how much faster it is than Ansible, which part of
/// the others' processor time it takes, memory of a host, time for the hosts in this process.
const OF_CORES: f64 = 0.85;
const TIMES_ANSIBLE: f64 = 3.0;
const PART_OF_PSSH: f64 = 6.0;
const PART_OF_ANSIBLE: f64 = 20.0;
const MEMORY_KB: f64 = 200.0;
const FAKE_SECONDS: f64 = 5.0;

/// The value that half of all are smaller than.
pub(super) fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

impl Side {
    /// The median of each figure.
    fn cost(&self) -> Cost {
        let of = |figure: fn(&Cost) -> Duration| median(self.costs.iter().map(figure).collect());
        Cost {
            elapsed: of(|cost| cost.elapsed),
            client: of(|cost| cost.client),
            server: of(|cost| cost.server),
        }
    }

    /// How much of the machine's processors was at work.
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn of_cores(&self, cores: usize) -> f64 {
        let each = self.costs.iter().map(|cost| {
            let worked = (cost.client + cost.server).as_secs_f64();
            worked / (cost.elapsed.as_secs_f64() * cores as f64)
        });
        let mut each: Vec<f64> = each.collect();
        each.sort_unstable_by(f64::total_cmp);
        each[each.len() / 2]
    }

    /// How many times as fast as `other`.
    fn times_as_fast(&self, other: &Self) -> f64 {
        other.cost().elapsed.as_secs_f64() / self.cost().elapsed.as_secs_f64()
    }

    /// How many times the processor time of this client `other` takes.
    fn times_as_thrifty(&self, other: &Self) -> f64 {
        other.cost().client.as_secs_f64() / self.cost().client.as_secs_f64()
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn show(count: usize, cores: usize, sides: &[Side]) {
    println!(
        "\n{:>13} {:>8} {:>9} {:>14} {:>12} {:>9}   ours is",
        format!("{count} hosts"),
        "what",
        "hosts/s",
        "client ms/host",
        "sshd ms/host",
        "of cores"
    );
    for side in sides {
        let cost = side.cost();
        let each = |time: Duration| time.as_secs_f64() * 1000.0 / count as f64;
        let own = sides.iter().find(|own| own.name == OURS && own.what == side.what);
        let versus = own.filter(|_| side.name != OURS).map(|own| {
            let (faster, thriftier) = (own.times_as_fast(side), own.times_as_thrifty(side));
            format!("{faster:.1}x faster, 1/{thriftier:.0} CPU")
        });
        println!(
            "{:>13} {:>8} {:>9.1} {:>14.2} {:>12.1} {:>9.2}   {}",
            side.name,
            side.what,
            count as f64 / cost.elapsed.as_secs_f64(),
            each(cost.client),
            each(cost.server),
            side.of_cores(cores),
            versus.unwrap_or_default()
        );
    }
}

/// What is asked for and what was reached.
#[derive(Debug, Default)]
pub(super) struct Verdict(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: String,
    asked: String,
    reached: String,
    is_reached: bool,
}

impl Verdict {
    pub(super) fn memory(&mut self, kilobytes: f64) {
        let is_reached = kilobytes < MEMORY_KB;
        let asked = format!("< {MEMORY_KB:.0} kB");
        self.add("memory of a connected host", asked, format!("{kilobytes:.0} kB"), is_reached);
    }

    pub(super) fn fake_hosts(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let what = format!("{FAKE_HOSTS} hosts in this process");
        let (asked, reached) = (format!("< {FAKE_SECONDS:.0} s"), format!("{seconds:.1} s"));
        self.add(&what, asked, reached, seconds < FAKE_SECONDS);
    }

    /// What is asked in comparison; of Ansible with the better of its ways.
    pub(super) fn sides(&mut self, count: usize, cores: usize, sides: &[Side]) {
        for own in sides.iter().filter(|side| side.name == OURS) {
            let about = format!("{count} hosts, {}", own.what);
            let of_cores = own.of_cores(cores);
            self.at_least(&format!("{about}: of cores"), OF_CORES, of_cores);
            let least = |name: &str, figure: fn(&Side, &Side) -> f64| {
                let others = sides.iter().filter(|side| side.what == own.what);
                let others = others.filter(|side| side.name.starts_with(name));
                others.map(|other| figure(own, other)).min_by(f64::total_cmp)
            };
            for (what, asked, reached) in [
                ("times as fast as Ansible", TIMES_ANSIBLE, least("ansible", Side::times_as_fast)),
                ("pssh's CPU is ours times", PART_OF_PSSH, least("pssh", Side::times_as_thrifty)),
                (
                    "Ansible's CPU is ours times",
                    PART_OF_ANSIBLE,
                    least("ansible", Side::times_as_thrifty),
                ),
            ] {
                if let Some(reached) = reached {
                    self.at_least(&format!("{about}: {what}"), asked, reached);
                }
            }
        }
    }

    fn at_least(&mut self, what: &str, asked: f64, reached: f64) {
        self.add(what, format!(">= {asked}"), format!("{reached:.2}"), reached >= asked);
    }

    fn add(&mut self, what: &str, asked: String, reached: String, is_reached: bool) {
        self.0.push(Row { what: what.to_owned(), asked, reached, is_reached });
    }

    /// Fails if something was not reached.
    pub(super) fn tell(&self) -> anyhow::Result<()> {
        println!("\n{:<50} {:>10} {:>10}", "", "asked", "reached");
        for Row { what, asked, reached, is_reached } in &self.0 {
            let missed = if *is_reached { "" } else { "   missed" };
            println!("{what:<50} {asked:>10} {reached:>10}{missed}");
        }
        let missed = self.0.iter().filter(|row| !row.is_reached).count();
        ensure!(missed == 0, "{missed} of {} figures are not what is asked for", self.0.len());
        Ok(())
    }
}
