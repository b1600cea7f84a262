//! `truetape demo`: the whole product on one machine, in under a minute.
