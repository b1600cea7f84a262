//! Base64, in the one form that can be told from its bytes: the standard alphabet, padded.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each byte as a digit; [`NONE`] for what is none.
const VALUES: [u8; 256] = values();
const NONE: u8 = 0xff;

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < DIGITS.len() {
        // A digit is below 64.
        values[DIGITS[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
}

/// Whether a byte can stand in base64, padding left out.
pub(super) fn is_digit(byte: u8) -> bool {
    value(byte).is_some()
}

fn value(byte: u8) -> Option<u32> {
    let value = VALUES.get(usize::from(byte)).copied().unwrap_or(NONE);
    (value != NONE).then(|| u32::from(value))
}

/// Decodes what encodes to the same text again, and nothing else.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"="));
    let digits = digits.unwrap_or(text);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for quad in digits.chunks(4) {
        let mut bits = 0_u32;
        for byte in quad {
            bits = bits << 6 | value(*byte)?;
        }
        let missing = 4 - quad.len();
        bits <<= 6 * missing;
        let [_, decoded @ ..] = bits.to_be_bytes();
        let (whole, rest) = decoded.split_at_checked(3 - missing)?;
        // Bits that belong to no byte would be lost.
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(whole);
    }
    Some(bytes)
}

/// Adds the base64 of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        for (slot, byte) in word.iter_mut().skip(1).zip(three) {
            *slot = *byte;
        }
        let bits = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 0x3f;
            let digit = DIGITS.get(digit as usize).copied().unwrap_or(b'A');
            out.push(if place <= three.len() { digit } else { b'=' });
        }
    }
}
