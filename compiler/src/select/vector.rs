//! Vectors of residuals, and sums over them: where a search spends its time.

/// Numbers that are worked on at once, so that the processor can take them together.
const LANES: usize = 8;

type Lanes = [f32; LANES];

/// The vectors of all units as a search needs them: in tolerances, without what is held out, filled
/// up with zeros to whole lanes, and side by side in the order in which units are looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaled {
    width: usize,
    /// By unit: where its vector is.
    place: Vec<u32>,
    x: Vec<f32>,
}

impl Scaled {
    /// Scales the vectors of units, in that order: each scale is a place of the old vectors, and one
    /// over its tolerance.
    pub(super) fn new<'a>(
        order: &[u32],
        of: impl Fn(usize) -> &'a [f32],
        scales: &[(usize, f32)],
    ) -> Self {
        let width = padded(scales.len());
        let mut place = vec![0; order.len()];
        let mut x = Vec::with_capacity(order.len() * width);
        for (at, unit) in (0..).zip(order) {
            if let Some(place) = place.get_mut(*unit as usize) {
                *place = at;
            }
            let vector = of(*unit as usize);
            let scaled =
                |(place, scale): &(usize, f32)| vector.get(*place).map_or(0.0, |x| x * scale);
            x.extend(scales.iter().map(scaled));
            x.resize(width * (at as usize + 1), 0.0);
        }
        Self { width, place, x }
    }

    /// The vector of a unit.
    pub(super) fn of(&self, unit: u32) -> &[f32] {
        let place = self
            .place
            .get(unit as usize)
            .map_or(usize::MAX, |at| *at as usize);
        let start = place.saturating_mul(self.width);
        let end = start.saturating_add(self.width);
        self.x.get(start..end).unwrap_or_default()
    }
}

/// The length of a vector that holds so many numbers.
pub(super) fn padded(numbers: usize) -> usize {
    numbers.next_multiple_of(LANES)
}

/// Adds a vector.
pub(super) fn add(off: &mut [f32], x: &[f32]) {
    off.iter_mut().zip(x).for_each(|(off, x)| *off += x);
}

/// Takes a vector away.
pub(super) fn subtract(off: &mut [f32], x: &[f32]) {
    off.iter_mut().zip(x).for_each(|(off, x)| *off -= x);
}

/// The sum of the squares of a vector of whole lanes.
pub(super) fn squares(off: &[f32]) -> f64 {
    let mut sums = [0.0; LANES];
    for off in off.as_chunks::<LANES>().0 {
        add_squares(&mut sums, off);
    }
    total(&sums)
}

/// The sum of the squares after a vector is added, to either of two.
pub(super) fn squares_with(offs: [&[f32]; 2], x: &[f32]) -> [f64; 2] {
    let [(first, _), (second, _)] = offs.map(<[f32]>::as_chunks::<LANES>);
    let mut sums = [[0.0; LANES]; 2];
    let both = first.iter().zip(second).zip(x.as_chunks::<LANES>().0);
    for ((first, second), x) in both {
        let [of_first, of_second] = &mut sums;
        add_squares(of_first, &plus(first, x));
        add_squares(of_second, &plus(second, x));
    }
    [total(&sums[0]), total(&sums[1])]
}

#[inline(always)]
fn plus(a: &Lanes, b: &Lanes) -> Lanes {
    std::array::from_fn(|lane| a[lane] + b[lane])
}

#[inline(always)]
fn add_squares(sums: &mut Lanes, off: &Lanes) {
    for (sum, off) in sums.iter_mut().zip(off) {
        *sum += off * off;
    }
}

fn total(sums: &Lanes) -> f64 {
    f64::from(sums.iter().sum::<f32>())
}

#[cfg(test)]
mod tests {
    use super::{Scaled, add, padded, squares, squares_with, subtract};

    #[test]
    fn what_is_held_out_is_not_there_and_the_rest_is_in_tolerances() {
        let vectors = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let of = |unit: usize| vectors[unit].as_slice();
        let scaled = Scaled::new(&[1, 0], of, &[(0, 2.0), (2, 0.5)]);
        assert_eq!(scaled.of(0), [2.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(scaled.of(1)[..2], [8.0, 3.0]);
        assert!(scaled.of(2).is_empty());
        assert!(Scaled::new(&[1, 0], of, &[]).of(1).is_empty());
    }

    #[test]
    fn squares_are_those_of_the_sums() {
        let number = |at: usize| (at * at % 7) as f32 - 3.0;
        let mut off: Vec<f32> = (0..padded(13)).map(number).collect();
        let other: Vec<f32> = off.iter().map(|off| off + 1.0).collect();
        let x: Vec<f32> = (0..off.len()).map(|at| number(at + 5)).collect();
        let plain = |off: &[f32]| off.iter().map(|off| f64::from(off * off)).sum::<f64>();
        assert_eq!(squares(&off), plain(&off));
        let [with, other_with] = squares_with([&off, &other], &x);
        let before = off.clone();
        add(&mut off, &x);
        assert_eq!(with, plain(&off));
        let mut changed = other.clone();
        add(&mut changed, &x);
        assert_eq!(other_with, plain(&changed));
        subtract(&mut off, &x);
        assert_eq!(off, before);
    }
}
