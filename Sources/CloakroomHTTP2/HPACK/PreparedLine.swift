import CloakroomWire

/// A response field that the gateway adds to many responses: prepared once, so that it is not searched and compared for
/// each. It is inserted in the table when it recurs on a connection, as the lines of upstreams are.
public struct PreparedLine: Sendable {
    let entry: CachedLines.Entry
    /// The line with its end.
    let bytes: [UInt8]

    /// Prepares a line.
    /// - Parameters:
    ///   - name: The name in lower case; at most 100 bytes.
    ///   - value: The value without white space around it; at most 90 bytes.
    public init(name: StaticString, value: StaticString) {
        let text = name.description
        let line = Array("\(text): \(value.description)\r\n".utf8)
        let nameCount = text.utf8.count
        assert(nameCount <= 100 && value.utf8CodeUnitCount <= 90, "the line is too long")
        bytes = line
        entry = CachedLines.Entry(
            hash: LineHash.hash(line.span, from: 0, count: line.count),
            receivedCount: UInt8(truncatingIfNeeded: line.count - 2), nameCount: UInt8(truncatingIfNeeded: nameCount),
            valueCount: UInt8(truncatingIfNeeded: value.utf8CodeUnitCount),
            nameIndex: ResponseFieldNames.shared.name(line.span, from: 0, count: nameCount, .other).index)
    }
}
