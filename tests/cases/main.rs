//! Other people's bugs as tests for us.
