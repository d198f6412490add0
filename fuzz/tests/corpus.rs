//! Every input that was ever worth keeping, tried again.

use camino::Utf8Path;

#[test]
fn nothing_in_the_corpus_breaks_anything() {
    let corpus = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fuzz::TARGETS {
        let mut count = 0;
        for entry in corpus.join(name).read_dir_utf8().unwrap() {
            target(&fs_err::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "there is no input for `{name}`");
    }
}

#[test]
fn no_cut_or_changed_byte_of_the_corpus_breaks_anything() {
    let corpus = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fuzz::TARGETS {
        for entry in corpus.join(name).read_dir_utf8().unwrap() {
            let input = fs_err::read(entry.unwrap().path()).unwrap();
            // A few dozen places in each, spread over the whole of it.
            for at in (0..input.len()).step_by(input.len() / 40 + 1) {
                target(&input[..at]);
                let mut changed = input.clone();
                changed[at] = changed[at].wrapping_add(1);
                target(&changed);
            }
        }
    }
}
