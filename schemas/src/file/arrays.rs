//! Arrow arrays that are made at their size.

use arrow_array::GenericByteArray;
use arrow_array::builder::GenericByteBuilder;
use arrow_array::types::ByteArrayType;

/// A column of texts or bytes, in one allocation; none where it would be longer than an array can
/// be.
///
/// Bodies are megabytes: an array that grows is copied each time, into pages that are new.
pub(crate) fn byte_array<'a, T>(
    values: impl Iterator<Item = Option<&'a T::Native>> + Clone,
) -> Option<GenericByteArray<T>>
where
    T: ByteArrayType<Offset = i32>,
{
    let length = |value: Option<&T::Native>| value.map_or(0, |value| bytes(value).len());
    let (count, total) = values.clone().fold((0, 0_usize), |(count, total), value| {
        (count + 1, total.saturating_add(length(value)))
    });
    i32::try_from(total).ok()?;
    let mut array = GenericByteBuilder::<T>::with_capacity(count, total);
    for value in values {
        array.append_option(value);
    }
    Some(array.finish())
}

fn bytes<N: AsRef<[u8]> + ?Sized>(value: &N) -> &[u8] {
    value.as_ref()
}

#[cfg(test)]
mod tests {
    use super::byte_array;
    use arrow_array::types::{BinaryType, Utf8Type};
    use arrow_array::{BinaryArray, StringArray};

    #[test]
    fn an_array_holds_its_values_and_their_absence() {
        let texts = [Some("a"), None, Some(""), Some("bcd")];
        let array = byte_array::<Utf8Type>(texts.into_iter()).unwrap();
        assert_eq!(array, StringArray::from_iter(texts));
        let bodies: [Option<&[u8]>; 2] = [None, Some(&[0, 255])];
        let array = byte_array::<BinaryType>(bodies.into_iter()).unwrap();
        assert_eq!(array, BinaryArray::from_iter(bodies));
    }
}
