//! Values that are one word or text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use package::document::Value;
use serde_json::{Value as Json, json};

use super::{Family, Given, Kind, PortRule, Type, Wrong, show};

impl Kind {
    /// Parses a value that is no list and no map.
    pub(super) fn scalar(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        match &given.node.value {
            Value::Null => {
                let message = format!("expected {}, found nothing", self.describe());
                let help = match self.base {
                    Type::String => "give it a value, or remove it; `\"\"` is an empty text",
                    _ => "give it a value, or remove it",
                };
                let help = help.to_owned();
                return Err(Wrong { message, help: Some(help) });
            }
            Value::List(_) => return Err(self.wrong("a list")),
            Value::Object(_) => return Err(self.wrong("keys with values")),
            _ => {}
        }
        match self.base {
            Type::Bool => self.boolean(given),
            Type::Int | Type::Port => self.integer(given),
            Type::Float => self.float(given),
            Type::Duration | Type::Size => self.quantity(given),
            _ => self.text(given),
        }
    }

    fn boolean(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        // The reference took texts; its files have them in quotes.
        match given.raw().to_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(json!(true)),
            "false" | "no" | "off" => Ok(json!(false)),
            _ => Err(self.wrong(&show(&json!(given.raw())))),
        }
    }

    fn integer(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        let raw = given.raw();
        let digits = raw.strip_prefix('-').unwrap_or(&raw);
        if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit())
        {
            let help = "leave out the leading zeros; some readers take them for octal".to_owned();
            return Err(Wrong { help: Some(help), ..self.wrong(&show(&json!(raw))) });
        }
        let number: i64 = raw.parse().map_err(|_| self.wrong(&show(&json!(raw))))?;
        if self.base == Type::Port && !(1..=65535).contains(&number) {
            return Err(self.wrong(&show(&json!(raw))));
        }
        Ok(json!(number))
    }

    fn float(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        let raw = given.raw();
        let number = raw.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(|number| json!(number)).ok_or_else(|| self.wrong(&show(&json!(raw))))
    }

    fn quantity(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        let raw = given.raw();
        let amount = match self.base {
            Type::Size => super::bytes_of(&raw).map(as_number),
            _ => super::seconds_of(&raw),
        };
        let Some(amount) = amount else { return Err(self.wrong(&show(&json!(raw)))) };
        let below = self.min.is_some_and(|min| amount < min);
        if below || self.max.is_some_and(|max| amount > max) {
            if self.expected.is_some() {
                return Err(self.wrong(&show(&json!(raw))));
            }
            let unit = if self.base == Type::Size { "bytes" } else { "seconds" };
            let range = self.range();
            let message =
                format!("expected a number of {unit}{range}, found {}", show(&json!(raw)));
            return Err(Wrong { message, help: None });
        }
        Ok(json!(raw.trim()))
    }

    fn text(&self, given: &Given<'_>) -> Result<Json, Wrong> {
        let is_text = matches!(self.base, Type::String | Type::Enum | Type::Secret);
        let is_path = matches!(self.base, Type::Path | Type::Script);
        let is_other = match given.node.value {
            Value::Bool(_) | Value::Date => true,
            // What no address can be gets a better answer below.
            Value::OtherNumber => is_text || is_path,
            Value::Integer(_) => is_path,
            _ => false,
        };
        if is_other {
            let raw = given.raw();
            // Two readers of YAML would make two texts of it.
            let help = match self.base {
                Type::Secret => "put it into quotes".to_owned(),
                _ => format!("put it into quotes: `\"{raw}\"`"),
            };
            return Err(Wrong { help: Some(help), ..self.wrong(given.node.kind()) });
        }
        let text = given.raw();
        let several = matches!(self.base, Type::Script) || self.multiline;
        if text.chars().any(|char| char.is_control() && !(several && matches!(char, '\n' | '\t'))) {
            let found = if text.contains('\n') { "several lines" } else { "control characters" };
            let found = if self.base == Type::Script && text.contains('\r') {
                "line ends of Windows, which no shell takes"
            } else {
                found
            };
            return Err(self.wrong(found));
        }
        let wrong = || self.wrong(&show(&json!(text)));
        match self.base {
            Type::Path => {
                let fits = !text.is_empty() && (self.relative || text.starts_with('/'));
                if fits { Ok(json!(text)) } else { Err(wrong()) }
            }
            Type::Url => self.url(&text),
            Type::Host => self.host(&text).map(|host| json!(host)),
            Type::Ip => self.address(&text).map(|address| json!(address)),
            Type::Cidr => self.network(&text),
            Type::Email => {
                let valid = text.split_once('@').is_some_and(|(user, domain)| {
                    !user.is_empty()
                        && !text.contains(char::is_whitespace)
                        && domain.contains('.')
                        && is_host_name(domain)
                });
                if valid { Ok(json!(text)) } else { Err(wrong()) }
            }
            Type::Script if !text.is_empty() && !text.starts_with("#!") => {
                let help = "the first line says what runs it, such as `#!/bin/sh`".to_owned();
                let first = text.lines().next().unwrap_or_default();
                Err(Wrong { help: Some(help), ..self.wrong(&show(&json!(first))) })
            }
            _ => Ok(json!(text)),
        }
    }

    fn url(&self, text: &str) -> Result<Json, Wrong> {
        let wrong = || {
            let scheme = self.schemes.first().map_or("http", String::as_str);
            let help = format!("did you mean `{scheme}://{text}`?");
            let help = (!text.contains(':') || is_host_with_port(text)).then_some(help);
            Wrong { help, ..self.wrong(&show(&json!(text))) }
        };
        let parsed = url::Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => wrong(),
            error => {
                let Wrong { message, help } = wrong();
                Wrong { message: format!("{message}: {error}"), help }
            }
        })?;
        if parsed.password().is_some() && !self.credentials {
            let message = format!("expected {} without a password", self.describe());
            let help = "everybody could read it: this is no secret".to_owned();
            return Err(Wrong { message, help: Some(help) });
        }
        let has_host = parsed.has_host() || parsed.scheme() == "file";
        let fits = self.schemes.is_empty() || self.schemes.iter().any(|one| one == parsed.scheme());
        if text.contains(char::is_whitespace) || !has_host || !fits {
            return Err(wrong());
        }
        Ok(json!(text))
    }

    /// An address or a name in its one form: small letters, IPv6 as short as it can be.
    fn host(&self, text: &str) -> Result<String, Wrong> {
        let (host, port) = self.split_port(text)?;
        if let Some(address) = parse_address(host) {
            return Ok(with_port(&address, port));
        }
        let host = host.to_lowercase();
        let last = host.rsplit('.').next().unwrap_or_default();
        let looks_like_address = last.bytes().all(|byte| byte.is_ascii_digit());
        if looks_like_address || !is_host_name(&host) {
            return Err(self.no_host(text));
        }
        Ok(match port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    }

    fn address(&self, text: &str) -> Result<String, Wrong> {
        let (host, port) = self.split_port(text)?;
        let address = parse_address(host).ok_or_else(|| self.no_host(text))?;
        let fits = match self.family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        if fits { Ok(with_port(&address, port)) } else { Err(self.no_host(text)) }
    }

    /// What is wrong with a text that is no host.
    fn no_host(&self, text: &str) -> Wrong {
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let help = if text.contains("://") {
            Some("leave out everything but the host")
        } else if text.contains('@') {
            Some("leave out the user")
        } else if text.contains('/') {
            Some("a network is many hosts: write each of them")
        } else if text.contains(char::is_whitespace) || text.contains(',') {
            Some("this is for one; several are items of a list")
        } else if text.split('.').all(is_number) {
            Some("an IPv4 address is four numbers up to 255, without leading zeros")
        } else if self.port == PortRule::None && is_host_with_port(text) {
            Some("leave out the port")
        } else if text.contains('_') {
            Some("names of hosts are letters, digits, `-` and `.`")
        } else {
            None
        };
        Wrong { help: help.map(str::to_owned), ..self.wrong(&show(&json!(text))) }
    }

    fn network(&self, text: &str) -> Result<Json, Wrong> {
        let network: ipnet::IpNet = text.parse().map_err(|_| self.wrong(&show(&json!(text))))?;
        let fits = match self.family {
            Family::Any => true,
            Family::V4 => network.addr().is_ipv4(),
            Family::V6 => network.addr().is_ipv6(),
        };
        if !fits {
            return Err(self.wrong(&show(&json!(text))));
        }
        if network.addr() != network.network() {
            let message = format!(
                "expected {}, found {}, which has bits behind its prefix",
                self.describe(),
                show(&json!(text))
            );
            return Err(Wrong { message, help: Some(format!("write `{}`", network.trunc())) });
        }
        Ok(json!(network.to_string()))
    }

    /// The host and the port, if there is one and may be.
    fn split_port<'t>(&self, text: &'t str) -> Result<(&'t str, Option<u16>), Wrong> {
        let wrong = || self.no_host(text);
        if text.contains("://") {
            return Err(wrong());
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                // Brackets are for IPv6 only.
                host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
                (host, rest.strip_prefix(':').or(if rest.is_empty() { None } else { Some("") }))
            }
            None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => {
                let number = port
                    .parse::<u16>()
                    .ok()
                    .filter(|number| *number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()));
                Some(number.ok_or_else(|| match self.port {
                    PortRule::None => wrong(),
                    _ => Wrong {
                        message: format!(
                            "expected a port from 1 to 65535 behind `:`, found {}",
                            show(&json!(text))
                        ),
                        help: None,
                    },
                })?)
            }
        };
        match (self.port, port) {
            (PortRule::None, Some(_)) | (PortRule::Required, None) => Err(wrong()),
            _ => Ok((host, port)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "limits of that size need not be exact")]
fn as_number(bytes: u64) -> f64 {
    bytes as f64
}

fn parse_address(text: &str) -> Option<IpAddr> {
    let v4 = text.parse::<Ipv4Addr>().map(IpAddr::V4);
    v4.or_else(|_| text.parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
}

fn with_port(address: &IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => std::net::SocketAddr::new(*address, port).to_string(),
        None => address.to_string(),
    }
}

/// Whether a text ends with a port.
fn is_host_with_port(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(_, port)| port.split('/').next().unwrap_or_default());
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether each label is one of RFC 1123.
fn is_host_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}
