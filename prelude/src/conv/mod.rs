//! Convolutions, pooling and windows of arrays, with any number of spatial axes.
//!
//! ```
//! use tapeloom::prelude::*;
//! // One image of 4 by 4 pixels and one channel, and one filter of 2 by 2.
//! let edges = |(image, filter): (Var, Var)| {
//!     let maps = conv::conv(image, filter, conv::Conv::new().same());
//!     conv::max_pool(maps, conv::windows([2, 2]).strides([2, 2]))
//! };
//! let image = Tensor::new(&[1, 1, 4, 4], (0..16).map(f64::from).collect())?;
//! let filter = Tensor::new(&[1, 1, 2, 2], vec![1.0, -1.0, 0.5, 0.25])?;
//! let y = run(edges, (image, filter))?;
//! assert_eq!(y.shape(), [1, 1, 2, 2]);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! A window is an index map, so products and sums over windows read the array directly and are fused with the
//! operations around them. Only a padded array is copied, once. If a product would take many small calls of the matrix
//! library, its windows are copied first, for one large call. The transpose of a convolution is a convolution.

mod convolution;
mod geometry;
mod pool;
mod sequence;

pub use convolution::{Conv, conv, conv_general_dilated, conv_transpose};
pub use geometry::{Windows, windows};
pub use pool::{avg_pool, max_pool, min_pool, patches, reduce_window, sum_pool};
pub use sequence::{convolve, correlate};
