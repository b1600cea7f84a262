//! Sets of a store: tags, history, what nobody points at, one file and back, two sets compared.

use crate::fixture::{Talk, compiled, hold, write};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::Compiled;
use truetape_compiler::store::{gc, history, list, pack, tag, untag};
use truetape_compiler::{diff, verify};
use truetape_schemas::report::Verdict;
use truetape_schemas::set::store;

const SMALL: &str = "name = \"chat\"\n[select]\ntoken_share = 0.5";
const ALL: &str = "name = \"chat\"\n[select]\nmethod = \"all\"";
const VERBATIM: &str =
    "name = \"chat\"\n[select]\nmethod = \"all\"\n[content]\nkind = \"verbatim\"";

fn capture(dir: &Path) -> PathBuf {
    let talk = |at: usize| Talk {
        name: format!("t{at}"),
        start_us: 1_000_000 * at as i64,
        turns: 1 + at % 3,
        keyed: true,
    };
    let rows = (0..8).flat_map(|at| hold(&talk(at)));
    write(&dir.join("c/0.parquet"), &rows.collect::<Vec<_>>());
    dir.join("c")
}

/// Compiles each recipe, one after the other, into one store.
fn store_of(dir: &Path, recipes: &[&str]) -> (PathBuf, Vec<Compiled>) {
    let capture = [capture(dir)];
    let store = dir.join("store");
    let sets = recipes
        .iter()
        .map(|recipe| compiled(&capture, recipe, &store));
    let sets = sets.collect();
    (store, sets)
}

#[test]
fn each_set_knows_the_one_before_and_its_captures() {
    let dir = tempfile::tempdir().unwrap();
    let (store, sets) = store_of(dir.path(), &[SMALL, ALL, SMALL]);
    let steps = history::read(&store.join("chat")).unwrap();
    let found: Vec<_> = steps
        .iter()
        .map(|step| (step.digest.as_str(), step.previous.as_deref()))
        .collect();
    let [small, all] = [0, 1].map(|at: usize| sets[at].manifest.digest.as_str());
    // The third was there already.
    assert_eq!(found, [(small, None), (all, Some(small))]);
    assert_eq!(
        steps[0].sources,
        [sets[0].manifest.sources[0].digest.clone()]
    );
}

#[test]
fn only_what_nothing_points_at_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, sets) = store_of(dir.path(), &[SMALL, ALL, VERBATIM]);
    let digests: Vec<&str> = sets
        .iter()
        .map(|set| set.manifest.digest.as_str())
        .collect();
    tag(&store, &format!("chat@sha256:{}", digests[0]), "v1").unwrap();
    let leftover = store.join("chat/.tmp-0123456789ab");
    std::fs::create_dir(&leftover).unwrap();
    let stranger = store.join("chat/notes");
    std::fs::create_dir(&stranger).unwrap();

    let planned = gc::gc(&store, None, 1, true).unwrap();
    assert!(
        sets[1].dir.is_dir() && leftover.is_dir(),
        "a dry run touches nothing"
    );
    let swept = gc::gc(&store, None, 1, false).unwrap();
    assert_eq!((&planned.sets, planned.bytes), (&swept.sets, swept.bytes));
    let short: String = digests[1].chars().take(12).collect();
    assert_eq!(swept.sets, [format!("chat@sha256:{short}")]);
    assert_eq!((swept.leftovers.len(), swept.kept), (1, 2));
    assert!(!sets[1].dir.is_dir() && !leftover.is_dir() && stranger.is_dir());
    assert_eq!(
        verify::of("chat@v1", Some(&store)).unwrap().faults,
        Vec::<String>::new()
    );

    untag(&store, "chat", "v1").unwrap();
    assert!(untag(&store, "chat", "v1").is_err());
    assert_eq!(
        gc::gc(&store, Some("chat"), 3, false).unwrap().sets.len(),
        0
    );
    assert_eq!(
        gc::gc(&store, Some("chat"), 0, false).unwrap().sets.len(),
        1
    );
    let listed = list(&store, None).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].digest.as_str(), &listed[0].tags[..]),
        (digests[2], &["latest".to_owned()][..])
    );
}

#[test]
fn a_set_travels_as_one_file_and_is_the_same_set() {
    let dir = tempfile::tempdir().unwrap();
    let (store, sets) = store_of(dir.path(), &[SMALL, VERBATIM]);
    let (one, two) = (dir.path().join("a.tar"), dir.path().join("b.tar"));
    let packed = pack::pack("chat", Some(&store), &one).unwrap();
    pack::pack("chat@latest", Some(&store), &two).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    assert_eq!(packed.digest, sets[1].manifest.digest);

    let other = dir.path().join("other");
    let unpacked = pack::unpack(&one, &other, &["v9".to_owned()]).unwrap();
    assert_eq!(
        verify::of("chat@v9", Some(&other)).unwrap().faults,
        Vec::<String>::new()
    );
    assert_eq!(store::manifest(&unpacked.path).unwrap(), sets[1].manifest);
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        mode(&unpacked.path),
        0o700,
        "production's text stays its owner's"
    );
    // Again is nothing new; another set does not take `latest` away.
    pack::unpack(&two, &other, &[]).unwrap();
    assert_eq!(history::read(&other.join("chat")).unwrap().len(), 1);
    let first = format!("chat@sha256:{}", sets[0].manifest.digest);
    pack::pack(&first, Some(&store), &two).unwrap();
    let synthetic = pack::unpack(&two, &other, &[]).unwrap();
    assert_ne!(mode(&synthetic.path) & 0o055, 0);
    assert_eq!(store::resolve("chat", Some(&other)).unwrap(), unpacked.path);
}

#[test]
fn a_file_that_is_no_whole_set_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = store_of(dir.path(), &[SMALL]);
    let file = dir.path().join("a.tar");
    pack::pack("chat", Some(&store), &file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let other = dir.path().join("other");
    let refused = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let error = pack::unpack(&file, &other, &[]).unwrap_err().to_string();
        let left: Vec<_> = std::fs::read_dir(&other).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        error
    };
    assert!(refused(&whole[..whole.len() / 2]).contains("cut off"));
    assert!(refused(b"not a tar archive").contains("a.tar"));
    // A turn that was changed: its file is a Parquet file still, or is not; either way no set.
    // The first pages of a file, not its footer: of that, some is not read.
    let at = whole.windows(4).position(|bytes| bytes == b"PAR1").unwrap();
    let mut changed = whole.clone();
    for byte in changed[at + 8..at + 200].iter_mut().step_by(8) {
        *byte ^= 1;
    }
    assert!(!refused(&changed).is_empty());

    // Names that leave the directory, and files that no set has.
    for name in ["../escape", "manifest.json/x", "other.txt"] {
        // The first entry under another name, its checksum mended.
        let mut renamed = whole.clone();
        renamed[..100].fill(0);
        renamed[..name.len()].copy_from_slice(name.as_bytes());
        renamed[148..156].fill(b' ');
        let sum: u32 = renamed[..512].iter().map(|byte| u32::from(*byte)).sum();
        renamed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let problem = refused(&renamed);
        assert!(problem.contains("a packed set has"), "{problem}");
    }
}

#[test]
fn two_sets_differ_by_setting_by_overlap_and_by_dimension() {
    let dir = tempfile::tempdir().unwrap();
    let (store, sets) = store_of(dir.path(), &[ALL, SMALL]);
    let [all, small] = [0, 1].map(|at: usize| format!("chat@sha256:{}", sets[at].manifest.digest));
    let same = diff::of(&all, &all, Some(&store)).unwrap();
    assert!(same.is_empty() && same.numbers.is_empty());
    let moved = |dimension: &truetape_schemas::report::Dimension| {
        dimension.deviation.is_some_and(|off| off != 0.0)
    };
    assert!(!same.dimensions.iter().any(moved));

    let found = diff::of(&all, &small, Some(&store)).unwrap();
    assert!(!found.is_empty());
    let two = found.sets.unwrap();
    let keys: Vec<&str> = two
        .settings
        .iter()
        .map(|setting| setting.key.as_str())
        .collect();
    assert_eq!(keys, ["recipe.select.method", "recipe.select.token_share"]);
    let counts = &sets[1].manifest.counts;
    assert_eq!((two.turns.b, two.turns.both), (counts.turns, counts.turns));
    assert_eq!((two.sessions.a, two.sessions.both), (8, counts.sessions));
    assert!(two.only_a_sources.is_empty() && two.tokens.both < two.tokens.a);
    let tokens = found
        .dimensions
        .iter()
        .find(|dimension| dimension.id == "tokens.input");
    assert_eq!(tokens.unwrap().verdict, Verdict::Fail);
}
