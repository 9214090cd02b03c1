/// What a server may ask of this process's memory with one value. More is a broken protocol: what is kept here is small.
struct RESPLimits: Sendable {
    /// The longest line, in bytes.
    var line = 64 * 1024
    /// The longest string, in bytes.
    var blob = 16 * 1024 * 1024
    /// The most bytes of all strings of one value.
    var bytes = 64 * 1024 * 1024
    /// The most members of one value, those of its members included.
    var members = 1_000_000
    /// How deep values may stand in each other.
    var depth = 16
}

/// What a server said is no RESP. Nothing that follows can be understood.
struct RESPProtocolError: Error, Equatable {
    /// What is wrong.
    enum Kind: Sendable {
        case unknownType, malformedLine, malformedNumber, malformedString, tooLong, tooMany, tooDeep
        /// Strings and rows whose length is not known beforehand. No server sends them.
        case streamed
        /// A push inside something else.
        case nestedPush
    }

    let kind: Kind
}
