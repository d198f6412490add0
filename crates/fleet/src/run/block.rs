//! A run for who waits for its end: with threads of its own, and an ear for Ctrl-C.

use std::sync::Arc;
use std::time::Duration;

use package::Cancel;
use tokio::sync::watch;

use super::{Control, Finished, Run, RunError};
use crate::event::Event;
use crate::transport::Transport;

/// How soon a request to end is heard.
const EAR: Duration = Duration::from_millis(100);

impl Run {
    /// [`Run::go`] to its end. Raising `cancel` begins nothing more, and waits for hosts that are changing.
    pub fn go_until<T: Transport>(
        self,
        transport: Arc<T>,
        cancel: &Cancel,
        watcher: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Finished, RunError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.map_err(RunError::Runtime)?.block_on(async {
            let (sender, control) = watch::channel(Control::GoOn);
            let mut going = std::pin::pin!(self.go(transport, control, watcher));
            loop {
                tokio::select! {
                    biased;
                    finished = &mut going => return finished,
                    () = tokio::time::sleep(EAR) => {
                        if cancel.is_cancelled() {
                            sender.send_replace(Control::Finish);
                        }
                    }
                }
            }
        })
    }
}
