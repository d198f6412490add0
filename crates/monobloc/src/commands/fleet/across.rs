//! What was found when all hosts were looked at together.

use fleet::across::{Account, Finding};
use host::wire::Level;

use crate::failure::Failure;
use crate::render::fleet::some;
use crate::render::{Output, plain, plural};

/// Tells each finding with what to do about it, and what was looked at.
pub(super) fn tell(account: &Account, output: &Output) -> Result<(), Failure> {
    let Account { hosts, connections, tried, findings } = account;
    for finding in findings {
        output.line(&line(finding))?;
        output.line(&format!("    {}", plain(&finding.fix)))?;
    }
    let compared = format!("compared {}", plural(*hosts, "host"));
    output.line(&match (connections, tried) {
        (0, _) => compared,
        (all, tried) if all == tried => {
            format!("{compared}; tried {} between them", plural(*all, "connection"))
        }
        (all, tried) => format!("{compared}; tried {tried} of {all} connections between them"),
    })
}

fn line(finding: &Finding) -> String {
    let Finding { name, level, hosts, to, found, .. } = finding;
    let level = match level {
        Level::Ok | Level::Notice => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let (who, found) = (some(hosts), plain(found));
    match (hosts.is_empty(), to.is_empty()) {
        (true, _) => format!("{level}: {name}: {found}"),
        (false, true) => format!("{level}: {name}: {who}: {found}"),
        (false, false) => format!("{level}: {name}: {who} cannot reach {} on {found}", some(to)),
    }
}
