/// Limits for the memory that one value of a server may use. A larger value is a protocol error: stored values are
/// small.
struct RESPLimits: Sendable {
    /// The maximum length of a line, in bytes.
    var line = 64 * 1024
    /// The maximum length of a string, in bytes.
    var blob = 16 * 1024 * 1024
    /// The maximum length of all strings of one value, in bytes.
    var bytes = 64 * 1024 * 1024
    /// The maximum number of members of one value, including nested members.
    var members = 1_000_000
    /// The maximum nesting depth of values.
    var depth = 16
}

/// The server sent invalid RESP. The data after it cannot be parsed.
struct RESPProtocolError: Error, Equatable {
    /// The kind of error.
    enum Kind: Sendable {
        case unknownType, malformedLine, malformedNumber, malformedString, tooLong, tooMany, tooDeep
        /// Strings and aggregates without a length. No server sends them.
        case streamed
        /// A push inside another value.
        case nestedPush
    }

    let kind: Kind
}
