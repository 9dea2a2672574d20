//! The inside of a tuple: the columns of a row or of an entry of an index, and their values.

pub mod attribute;
pub mod columns;
pub mod index;
pub mod value;
