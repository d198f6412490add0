//! The proxy that the environment names for each kind of address.

use std::env;

use ureq::{Proxy, ProxyProtocol};
use url::Url;

/// The proxy in the variable of this name, in small letters or in capitals, or in `all_proxy`; nothing if
/// there is none, or none that is an address.
pub(crate) fn named(variable: &str) -> Option<Proxy> {
    let text = value(variable).or_else(|| value("all_proxy"))?;
    parse(&text, value("no_proxy").as_deref())
}

fn value(variable: &str) -> Option<String> {
    [variable.to_owned(), variable.to_uppercase()]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

fn parse(text: &str, no_proxy: Option<&str>) -> Option<Proxy> {
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&text).ok()?;
    let protocol = match url.scheme() {
        "http" => ProxyProtocol::Http,
        "https" => ProxyProtocol::Https,
        _ => return None,
    };
    let mut proxy = Proxy::builder(protocol).host(url.host_str()?);
    proxy = proxy.port(url.port_or_known_default()?);
    if !url.username().is_empty() {
        proxy = proxy.username(url.username()).password(url.password().unwrap_or_default());
    }
    for host in no_proxy.unwrap_or_default().split(',').map(str::trim) {
        if !host.is_empty() {
            proxy = proxy.no_proxy(host);
        }
    }
    proxy.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_everything_in_it() {
        let proxy =
            parse("http://bob:secret@proxy.example:3128", Some("a.example, .b.example")).unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("proxy.example", 3128));
        assert_eq!((proxy.username(), proxy.password()), (Some("bob"), Some("secret")));
        assert!(proxy.is_no_proxy(&"http://a.example/x".parse().unwrap()));
        assert!(!proxy.is_no_proxy(&"http://c.example/x".parse().unwrap()));
        assert_eq!(parse("proxy.example:80", None).unwrap().host(), "proxy.example");
        for text in ["", "ftp://x", "http://", "::"] {
            assert!(parse(text, None).is_none(), "{text}");
        }
    }
}
