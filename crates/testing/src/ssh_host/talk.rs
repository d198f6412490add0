//! What a host answers, on one connection.

use std::borrow::Cow;
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;

use russh::keys::{Certificate, HashAlg};
use russh::server::{
    Auth, ChannelOpenHandle, Handle, Handler, Msg, PublicKeyOffer, Response, Session,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::mpsc;

use super::stream::Valve;
use super::{Login, Reply, Request, Shared};

/// The group of processes that is told for commands that are not really run.
const GROUP: u32 = 99_999_999;

pub(super) struct Talk {
    pub(super) shared: Arc<Shared>,
    pub(super) valve: Valve,
    pub(super) user: String,
    /// Of commands that really run.
    pub(super) inputs: HashMap<ChannelId, mpsc::UnboundedSender<Vec<u8>>>,
    pub(super) terminals: Vec<ChannelId>,
}

impl Talk {
    fn decide(&mut self, user: &str, fits: impl Fn(&Login) -> bool) -> Auth {
        if self.shared.behaviour.logins.iter().any(fits) {
            user.clone_into(&mut self.user);
            return Auth::Accept;
        }
        self.refuse()
    }

    /// As OpenSSH does, with all that may still be tried.
    fn refuse(&self) -> Auth {
        let methods = super::methods(&self.shared.behaviour);
        Auth::Reject { proceed_with_methods: Some(methods), partial_success: false }
    }
}

impl Handler for Talk {
    type Error = russh::Error;

    async fn auth_none(&mut self, user: &str) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, |login| matches!(login, Login::Nothing)))
    }

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, |login| matches!(login, Login::Password(good) if *good == password)))
    }

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, |login| match login {
            Login::Key(key) => key.key_data() == offer.public_key.key_data(),
            // Whose certificate it is is seen later.
            Login::SignedBy(_) | Login::Nothing => true,
            _ => false,
        }))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, |login| match login {
            Login::Key(good) => good.key_data() == key.public_key.key_data(),
            Login::Nothing => true,
            _ => false,
        }))
    }

    async fn auth_openssh_certificate(
        &mut self,
        user: &str,
        certificate: &Certificate,
    ) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, |login| match login {
            Login::SignedBy(authority) => {
                let trusted = [authority.fingerprint(HashAlg::Sha256)];
                certificate.validate(&trusted).is_ok()
                    && certificate.valid_principals().iter().any(|name| name == user)
            }
            _ => false,
        }))
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, Self::Error> {
        let logins = self.shared.behaviour.logins.iter();
        let mut question = logins.filter_map(|login| match login {
            Login::Answer(question, _) => Some(*question),
            _ => None,
        });
        let Some(question) = question.next_back() else { return Ok(self.refuse()) };
        let Some(response) = response else {
            return Ok(Auth::Partial {
                name: Cow::Borrowed(""),
                instructions: Cow::Borrowed(""),
                prompts: Cow::Owned(vec![(Cow::Borrowed(question), false)]),
            });
        };
        let said: Vec<_> = response.collect();
        Ok(self.decide(user, |login| match login {
            Login::Answer(_, answer) => said.len() == 1 && said[0] == answer.as_bytes(),
            _ => false,
        }))
    }

    async fn channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.shared.behaviour.no_channels {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
        } else {
            reply.accept().await;
        }
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _from: &str,
        _from_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let port = u16::try_from(port).unwrap_or(0);
        match TcpStream::connect((host, port)).await {
            Ok(mut target) => {
                reply.accept().await;
                tokio::spawn(async move {
                    let mut stream = channel.into_stream();
                    // Either side may end it at any moment.
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut target).await);
                });
            }
            Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
        }
        Ok(())
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.terminals.push(channel);
        session.channel_success(channel)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)?;
        let line = String::from_utf8_lossy(data).into_owned();
        let words = shlex::split(&line).unwrap_or_default();
        let shell = words.iter().position(|word| word == "/bin/sh").unwrap_or(words.len());
        let word = |index: usize| words.get(shell + index).cloned().unwrap_or_default();
        let request = Request {
            user: self.user.clone(),
            script: word(4),
            as_root: words[..shell].iter().any(|word| word == "sudo"),
            has_terminal: self.terminals.contains(&channel),
            line,
        };
        self.shared.requests.lock().expect("nobody panics").push(request.clone());
        let reply = (self.shared.behaviour.commands)(&request);
        let handle = session.handle();
        if let Reply::Runs { programs } = &reply {
            let (sender, input) = mpsc::unbounded_channel();
            self.inputs.insert(channel, sender);
            let command = command(programs.as_str(), &request);
            tokio::spawn(async move { really_run(command, handle, channel, input).await });
        } else {
            let (valve, name) = (self.valve.clone(), word(3));
            tokio::spawn(async move { pretend(reply, &name, &handle, channel, &valve).await });
        }
        Ok(())
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(input) = self.inputs.get(&channel) {
            // A program that has ended reads nothing more.
            drop(input.send(data.to_vec()));
        }
        Ok(())
    }

    async fn channel_eof(
        &mut self,
        channel: ChannelId,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.inputs.remove(&channel);
        Ok(())
    }
}

/// Says what a command would. A client that is gone hears nothing.
async fn pretend(reply: Reply, name: &str, handle: &Handle, channel: ChannelId, valve: &Valve) {
    if !matches!(reply, Reply::Refuses { .. }) {
        let begun = format!("{name} {GROUP}\n");
        drop(handle.data(channel, begun.clone()).await);
        drop(handle.extended_data(channel, 1, begun).await);
    }
    let (stdout, stderr, status) = match reply {
        Reply::Says { stdout, stderr, status } => (stdout, stderr, status),
        Reply::Refuses { stderr, status } => (String::new(), stderr, status),
        Reply::Cuts => return valve.cut(),
        Reply::GoesSilent => return valve.silence(),
        Reply::Runs { .. } => return,
    };
    drop(handle.data(channel, stdout).await);
    drop(handle.extended_data(channel, 1, stderr).await);
    end(handle, channel, status).await;
}

async fn end(handle: &Handle, channel: ChannelId, status: u32) {
    // Who is gone hears nothing.
    let _ = handle.exit_status_request(channel, status).await;
    let _ = handle.eof(channel).await;
    let _ = handle.close(channel).await;
}

fn command(programs: &str, request: &Request) -> Command {
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = if request.has_terminal {
        // This program has terminals to lend.
        let mut command = Command::new("script");
        let line = format!("stty -echo -onlcr; {}", request.line);
        command.args(["-qefc", &line, "/dev/null"]);
        command
    } else {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &request.line]);
        command
    };
    crate::platform::own_group(&mut command);
    command.env("PATH", path).env("SHELL", "/bin/sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn really_run(
    mut command: Command,
    handle: Handle,
    channel: ChannelId,
    mut input: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    let mut child = command.spawn().expect("there is a shell");
    let mut stdin = child.stdin.take().expect("it was piped");
    tokio::spawn(async move {
        while let Some(bytes) = input.recv().await {
            if stdin.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    let stdout = child.stdout.take().expect("it was piped");
    let stderr = child.stderr.take().expect("it was piped");
    tokio::join!(
        forward(stdout, &handle, channel, None),
        forward(stderr, &handle, channel, Some(1))
    );
    let status = child.wait().await.expect("it was started");
    let code = status.code().and_then(|code| u32::try_from(code).ok());
    end(&handle, channel, code.unwrap_or(143)).await;
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    handle: &Handle,
    channel: ChannelId,
    extended: Option<u32>,
) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
    {
        let bytes = buffer[..count].to_vec();
        // Who is gone hears nothing; the program goes on.
        match extended {
            Some(code) => drop(handle.extended_data(channel, code, bytes).await),
            None => drop(handle.data(channel, bytes).await),
        }
    }
}
