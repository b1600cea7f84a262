//! What the engine says.

/// Words of three letters with a space: each is one token, and none needs escaping in JSON.
#[rustfmt::skip]
pub(super) const WORDS: [&str; 128] = [
    "act ", "add ", "age ", "ago ", "aid ", "aim ", "air ", "all ", "and ", "ant ", "any ", "ape ",
    "apt ", "arc ", "are ", "ark ", "arm ", "art ", "ash ", "ask ", "ate ", "bag ", "bat ", "bay ",
    "bed ", "bee ", "bet ", "big ", "bit ", "boa ", "bow ", "box ", "bud ", "bus ", "but ", "buy ",
    "cab ", "can ", "cap ", "car ", "cat ", "cod ", "cog ", "cow ", "cup ", "cut ", "day ", "den ",
    "dew ", "dig ", "dim ", "dip ", "dog ", "dot ", "dry ", "due ", "ear ", "eat ", "egg ", "elk ",
    "elm ", "end ", "era ", "eve ", "eye ", "fan ", "far ", "few ", "fig ", "fin ", "fir ", "fit ",
    "fix ", "fly ", "fog ", "for ", "fox ", "fun ", "fur ", "gap ", "gem ", "get ", "hat ", "hay ",
    "hen ", "her ", "hop ", "hot ", "how ", "hut ", "ice ", "ink ", "ivy ", "jam ", "jar ", "jay ",
    "jet ", "job ", "joy ", "key ", "kit ", "lab ", "lap ", "law ", "leg ", "let ", "lid ", "lip ",
    "log ", "lot ", "low ", "map ", "mat ", "may ", "mix ", "mud ", "net ", "new ", "nod ", "now ",
    "oak ", "oar ", "oat ", "odd ", "off ", "oil ", "old ", "one ",
];
