//! Hashes of passwords, against what the system makes of them.

use std::process::Command;

#[test]
fn a_hash_is_the_one_that_crypt_makes() {
    let hash = config::password::hash("käse $1").unwrap();
    assert!(hash.starts_with("$6$rounds=656000$"), "{hash}");
    assert_eq!(hash.split('$').map(str::len).collect::<Vec<_>>(), [0, 1, 13, 16, 86]);
    // The hash itself says how it was made.
    let perl = ["-e", "print crypt($ARGV[0], $ARGV[1])", "--", "käse $1", &hash];
    let output = Command::new("perl").args(perl).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), hash);
}

#[test]
fn a_password_never_has_the_same_hash_twice() {
    assert_ne!(config::password::hash("x").unwrap(), config::password::hash("x").unwrap());
}
