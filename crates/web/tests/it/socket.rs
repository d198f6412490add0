//! Where a server listens: the file of its socket, and addresses.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use insta::assert_snapshot;
use web::{ListenError, Listener};

use crate::world::World;

fn said(world: &World, error: &ListenError) -> String {
    package::causes(error).join(": ").replace(world.top.as_str(), "TOP")
}

#[test]
fn only_its_owner_can_connect_to_a_socket() {
    let world = World::new();
    let path = world.top.join("run/dcos/api.sock");
    let listener = Listener::socket(&path).unwrap();
    assert_eq!(listener.address(), path);
    assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    UnixStream::connect(&path).unwrap();
    drop(listener);
    let left: Vec<_> = path.parent().unwrap().read_dir_utf8().unwrap().collect();
    assert_eq!(left.len(), 1, "more than the lock is left: {left:?}");
}

#[test]
fn what_a_dead_server_left_is_replaced() {
    let world = World::new();
    let path = world.top.join("api.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(UnixStream::connect(&path).is_err());
    let _listener = Listener::socket(&path).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_live_server_is_left_alone() {
    let world = World::new();
    let path = world.top.join("api.sock");
    let ours = Listener::socket(&path).unwrap();
    assert_snapshot!(said(&world, &Listener::socket(&path).unwrap_err()), @"another server listens on `TOP/api.sock`");
    UnixStream::connect(&path).unwrap();
    drop(ours);
    let foreign = UnixListener::bind(&path).unwrap();
    assert!(matches!(Listener::socket(&path), Err(ListenError::Live(_))));
    assert!(path.exists());
    drop(foreign);
}

#[test]
fn what_is_no_socket_is_not_touched() {
    let world = World::new();
    let path = world.top.join("api.sock");
    fs_err::write(&path, "precious").unwrap();
    assert_snapshot!(said(&world, &Listener::socket(&path).unwrap_err()), @"`TOP/api.sock` is there and is no socket; move it away");
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn addresses_are_of_this_machine_alone() {
    let world = World::new();
    for address in ["127.0.0.1:0", "127.0.0.2:0"] {
        let listener = Listener::loopback(address.parse().unwrap()).unwrap();
        assert!(!listener.address().ends_with(":0"), "{}", listener.address());
    }
    let refused = Listener::loopback("0.0.0.0:0".parse().unwrap()).unwrap_err();
    assert_snapshot!(said(&world, &refused), @"`0.0.0.0:0` is not an address of this machine alone: the API has no authentication, so it can be served on loopback addresses only");
    for address in ["10.0.0.1:0", "[::]:0", "[::ffff:10.0.0.1]:0"] {
        let refused = Listener::loopback(address.parse().unwrap());
        assert!(matches!(refused, Err(ListenError::NotLoopback(_))), "{address}");
    }
}
