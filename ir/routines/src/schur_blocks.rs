//! The Schur form of a 2 x 2 matrix, after LAPACK's `lanv2`.

use crate::real::Real;

/// The plane rotation with rows `(cosine, sine)` and `(-sine, cosine)`.
#[derive(Clone, Copy)]
pub(crate) struct Rotation<T> {
    pub(crate) cosine: T,
    pub(crate) sine: T,
}

impl<T: Real> Rotation<T> {
    pub(crate) fn apply(self, x: T, y: T) -> [T; 2] {
        [self.cosine * x + self.sine * y, self.cosine * y - self.sine * x]
    }

    /// Returns the product of two rotations: it applies `other` first, then `self`.
    fn after(self, other: Self) -> Self {
        Rotation {
            cosine: other.cosine * self.cosine - other.sine * self.sine,
            sine: other.cosine * self.sine + other.sine * self.cosine,
        }
    }
}

fn with_sign<T: Real>(size: T, sign: T) -> T {
    if sign < T::zero() { -size.abs() } else { size.abs() }
}

/// Returns the standard form `r block r^T` of a 2 x 2 block, and the rotation `r`. The form is upper triangular
/// for real eigenvalues; otherwise its diagonal entries are equal and its off-diagonal entries have opposite
/// signs.
pub(crate) fn standardise<T: Real>([[a, b], [c, d]]: [[T; 2]; 2]) -> ([[T; 2]; 2], Rotation<T>) {
    let zero = T::zero();
    let none = Rotation { cosine: T::one(), sine: zero };
    let opposite = |b: T, c: T| (b < zero) != (c < zero);
    if c == zero {
        return ([[a, b], [c, d]], none);
    }
    if b == zero {
        let exchange = Rotation { cosine: zero, sine: T::one() };
        return ([[d, -c], [zero, a]], exchange);
    }
    if a == d && opposite(b, c) {
        return ([[a, b], [c, d]], none);
    }
    let half = T::of_f64(0.5);
    let difference = a - d;
    let p = half * difference;
    let (most, least) = if b.abs() > c.abs() { (b.abs(), c.abs()) } else { (c.abs(), b.abs()) };
    let least = if opposite(b, c) { -least } else { least };
    let scale = if p.abs() > most { p.abs() } else { most };
    // The discriminant of the characteristic polynomial, divided by 4 and by `scale` against overflow.
    let z = (p / scale) * p + (most / scale) * least;
    if z >= T::of_f64(4.0) * T::ULP {
        let z = p + with_sign(scale.root() * z.root(), p);
        let length = c.length(z);
        let rotation = Rotation { cosine: z / length, sine: c / length };
        let form = [[d + z, b - c], [zero, d - (most / z) * least]];
        return (form, rotation);
    }
    // The eigenvalues are conjugate or almost equal, so the rotation makes the diagonal entries equal.
    let sigma = b + c;
    let length = sigma.length(difference);
    let cosine = (half * (T::one() + sigma.abs() / length)).root();
    let sine = -(p / (length * cosine)) * with_sign(T::one(), sigma);
    let rotation = Rotation { cosine, sine };
    let [aa, bb] = rotation.apply(a, b);
    let [cc, dd] = rotation.apply(c, d);
    let [a, c] = rotation.apply(aa, cc);
    let [b, d] = rotation.apply(bb, dd);
    let mean = half * (a + d);
    if c == zero {
        return ([[mean, b], [c, mean]], rotation);
    }
    if b == zero {
        // The form is lower triangular: a further quarter turn makes it upper triangular.
        let quarter = Rotation { cosine: zero, sine: T::one() };
        return ([[mean, -c], [zero, mean]], quarter.after(rotation));
    }
    if opposite(b, c) {
        return ([[mean, b], [c, mean]], rotation);
    }
    // The off-diagonal entries have the same sign, so the eigenvalues are real: a second rotation makes the form
    // upper triangular.
    let (root_b, root_c) = (b.abs().root(), c.abs().root());
    let p = with_sign(root_b * root_c, c);
    let tau = T::one() / (b + c).abs().root();
    let second = Rotation { cosine: root_b * tau, sine: root_c * tau };
    let form = [[mean + p, b - c], [zero, mean - p]];
    (form, second.after(rotation))
}
