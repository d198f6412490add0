//! The hash of a password as `/etc/shadow` and a configuration hold it.

use std::io;

use sha_crypt::password_hash::CustomizedPasswordHasher as _;
use sha_crypt::{Params, PasswordHash, ShaCrypt};

/// As many as the reference uses: what it made and what is made here is equally hard to guess.
const ROUNDS: u32 = 656_000;
/// Sixteen characters, the most that the format has.
const SALT_BYTES: usize = 12;

/// Hashes a password with SHA-512-crypt and a random salt.
pub fn hash(password: &str) -> io::Result<String> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    let params = Params::new(ROUNDS).map_err(io::Error::other)?;
    let hash: PasswordHash = ShaCrypt::SHA512
        .hash_password_customized(password.as_bytes(), &salt, None, None, params)
        .map_err(io::Error::other)?;
    Ok(hash.to_string())
}
