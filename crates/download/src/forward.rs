//! Plain HTTP through a proxy, as every proxy understands it: the whole address in the request. (The
//! library opens a tunnel for it, which proxies allow for encrypted connections only.)

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::uri::Scheme;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, ProxyProtocol};

/// Connects to the proxy for what is not encrypted, and leaves everything else to the next.
#[derive(Debug)]
pub(crate) struct ForwardConnector {
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

impl Connector<()> for ForwardConnector {
    type Out = Forwarded;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Forwarded>, Error> {
        let proxy = details.config.proxy().filter(|proxy| {
            details.uri.scheme() == Some(&Scheme::HTTP)
                && proxy.protocol() == ProxyProtocol::Http
                && !proxy.is_no_proxy(details.uri)
        });
        let (Some(proxy), Some(host)) = (proxy, details.uri.host()) else {
            return Ok(None);
        };
        let mut last = io::Error::other("the proxy has no address");
        for address in &*details.resolver.resolve(proxy.uri(), details.config, details.timeout)? {
            match TcpStream::connect_timeout(address, self.connect_timeout) {
                Err(error) => last = error,
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.idle_timeout))?;
                    stream.set_write_timeout(Some(self.idle_timeout))?;
                    let sizes =
                        [details.config.input_buffer_size(), details.config.output_buffer_size()];
                    let credentials = proxy.username().map(|user| {
                        let pair = format!("{user}:{}", proxy.password().unwrap_or_default());
                        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
                    });
                    return Ok(Some(Forwarded {
                        stream,
                        buffers: LazyBuffers::new(sizes[0], sizes[1]),
                        origin: origin(host, details.uri.port_u16()),
                        credentials: credentials.unwrap_or_default(),
                    }));
                }
            }
        }
        Err(last.into())
    }
}

/// The start of an address, without the user and password that may be in it.
fn origin(host: &str, port: Option<u16>) -> String {
    port.map_or_else(|| format!("http://{host}"), |port| format!("http://{host}:{port}"))
}

/// A connection to a proxy that gets requests for one origin.
pub(crate) struct Forwarded {
    stream: TcpStream,
    buffers: LazyBuffers,
    origin: String,
    credentials: String,
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Transport for Forwarded {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let output = &self.buffers.output()[..amount];
        match rewritten(output, &self.origin, &self.credentials) {
            Some(request) => self.stream.write_all(&request)?,
            None => self.stream.write_all(output)?,
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        let count = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each request has a connection of its own: whether one is good still, only the proxy knows.
        false
    }
}

/// The start of a request with the whole address in it; `None`: it is none. Nothing here has a body.
fn rewritten(output: &[u8], origin: &str, credentials: &str) -> Option<Vec<u8>> {
    let space = output.iter().position(|byte| *byte == b' ')?;
    let (method, rest) = output.split_at(space + 1);
    let is_request = matches!(method, b"GET " | b"HEAD ") && rest.starts_with(b"/");
    let line = rest.windows(2).position(|pair| pair == b"\r\n").filter(|_| is_request)? + 2;
    let (line, headers) = rest.split_at(line);
    Some([method, origin.as_bytes(), line, credentials.as_bytes(), headers].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_whole_address_and_everything_else_stays() {
        let request = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n";
        let made =
            rewritten(request, "http://x:80", "Proxy-Authorization: Basic YQ==\r\n").unwrap();
        let expected =
            "GET http://x:80/a?b HTTP/1.1\r\nProxy-Authorization: Basic YQ==\r\nHost: x\r\n\r\n";
        assert_eq!(String::from_utf8(made).unwrap(), expected);
        for other in
            [&b""[..], b"GET", b"GET / ", b"POST / HTTP/1.1\r\n", b"GET http://x/ HTTP/1.1\r\n"]
        {
            assert_eq!(rewritten(other, "http://x", ""), None);
        }
    }
}
