/// The position of a parser in the extensions of a chunk: `*( ";" token [ "=" ( token / quoted-string ) ] )` (RFC 9112
/// §7.1.1).
enum ChunkExtensionScan: Sendable {
    /// At the start of a name.
    case nameStart
    case name
    /// At the start of a value.
    case valueStart
    case value
    /// Within a quoted string.
    case quoted
    /// After a backslash in a quoted string.
    case escaped
    /// After the end of a quoted string.
    case quotedEnd

    /// Whether the line may end here.
    var mayEnd: Bool {
        switch self {
        case .name, .value, .quotedEnd: true
        case .nameStart, .valueStart, .quoted, .escaped: false
        }
    }

    /// Handles one byte that is not part of a line end.
    /// - Returns: `nil` if the byte is not allowed at this position.
    func next(_ byte: UInt8) -> ChunkExtensionScan? {
        switch self {
        case .nameStart: return Byte.isToken(byte) ? .name : nil
        case .name:
            if byte == UInt8(ascii: "=") { return .valueStart }
            return byte == Byte.semicolon ? .nameStart : Byte.isToken(byte) ? .name : nil
        case .valueStart:
            return byte == UInt8(ascii: "\"") ? .quoted : Byte.isToken(byte) ? .value : nil
        case .value:
            return byte == Byte.semicolon ? .nameStart : Byte.isToken(byte) ? .value : nil
        case .quoted:
            if byte == UInt8(ascii: "\"") { return .quotedEnd }
            if byte == UInt8(ascii: "\\") { return .escaped }
            return Byte.isFieldText(byte) ? .quoted : nil
        case .escaped: return Byte.isFieldText(byte) ? .quoted : nil
        case .quotedEnd: return byte == Byte.semicolon ? .nameStart : nil
        }
    }
}
