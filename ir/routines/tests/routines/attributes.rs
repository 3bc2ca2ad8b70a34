//! Tests of the text form of routines: printing and parsing must give the same routine.

use tapeloom_routines::{QrBasis, Routine, SvdVectors};

#[test]
fn every_routine_is_found_again_by_its_words() {
    let (m, n, columns) = (3, 2, 5);
    let mut all = vec![
        Routine::Cholesky { n },
        Routine::TridiagonalSolve { n, columns },
        Routine::Lu { m, n },
        Routine::Schur { n },
        Routine::RealFft { rows: 7, n, columns },
        Routine::InverseRealFft { rows: 7, n, columns },
    ];
    all.extend(QrBasis::ALL.map(|basis| Routine::Qr { m, n, basis }));
    all.extend(SvdVectors::ALL.map(|vectors| Routine::Svd { m, n, vectors }));
    for on in [false, true] {
        all.extend([
            Routine::TriangularSolve {
                n,
                columns,
                lower: on,
                transposed: false,
                unit_diagonal: !on,
            },
            Routine::TriangularSolve { n, columns, lower: true, transposed: on, unit_diagonal: on },
            Routine::Eigh { n, vectors: on },
            Routine::Eig { n, vectors: on },
            Routine::Fft { rows: 7, n, columns, inverse: on },
        ]);
    }
    for routine in all {
        let words = routine.attributes();
        let words: Vec<(&str, &str)> = words.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(Routine::named(routine.name(), &words), Some(routine.clone()), "{routine}");
        assert_eq!(Routine::named(routine.name(), &words[1..]), None, "{routine}");
    }
}
