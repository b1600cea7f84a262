//! Settings that a reload replaces while they are in use.

use std::sync::{Arc, PoisonError, RwLock};

/// What is in force. Whoever took it keeps it; whoever asks next gets what came after.
#[derive(Debug)]
pub struct Swap<T>(RwLock<Arc<T>>);

impl<T> Swap<T> {
    /// Begins with this.
    pub fn new(value: Arc<T>) -> Self {
        Self(RwLock::new(value))
    }

    /// What is in force now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in force.
    pub fn set(&self, value: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}
