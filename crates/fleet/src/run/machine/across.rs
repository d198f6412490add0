//! Hosts try to reach each other, in parts: [`Matrix`] says what is asked in each, and what comes of it.

use host::wire::Request;

use super::{Doing, Effect, Effects, Machine, Outcome};
use crate::across::{Matrix, tag};
use crate::event::What;
use crate::run::spec::request_name;

impl Machine {
    /// Keeps what matters for who tries to reach whom.
    pub(super) fn learn(&mut self, host: usize, doing: Doing, outcome: &Outcome) {
        let Some(matrix) = &mut self.matrix else { return };
        match outcome {
            _ if doing == Doing::Across => matrix.hear(host, outcome),
            Outcome::Answered { report, .. } => matrix.learn(host, report),
            Outcome::Silent | Outcome::Faulted { .. } => {}
        }
    }

    /// Begins the next part, or the next phase.
    pub(super) fn try_on(&mut self, out: &mut Effects) {
        let matrix = self.matrix.as_mut().filter(|_| self.stopped.is_none());
        let orders = matrix.and_then(|matrix| matrix.go_on().then(|| matrix.orders()));
        let Some(orders) = orders else {
            return self.enter(self.phase + 1, out);
        };
        let hosts = orders.len();
        let name = orders.values().next().map_or("reach", request_name).to_owned();
        self.queue = orders.keys().map(|host| (*host, Doing::Across)).collect();
        out.push(Effect::Tell(What::Phase { phase: self.phase, name, hosts }));
    }

    /// What a host is asked in this part.
    pub(super) fn order_across(&self, host: usize) -> Request {
        let order = self.matrix.as_ref().and_then(|matrix| matrix.orders().get(&host));
        order.expect("only who has something to try is told").clone()
    }

    /// What the step is called in which it is.
    pub(super) fn tag_across(&self, host: usize) -> String {
        let part = self.matrix.as_ref().map_or(0, Matrix::part);
        tag(self.phase, part, request_name(&self.order_across(host)))
    }
}
