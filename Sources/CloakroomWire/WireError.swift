/// Why a message was rejected. The connection is closed afterwards, because the following bytes cannot be trusted.
public enum WireError: Error, Sendable, Hashable, CaseIterable {
    /// The request line is not `method SP target SP version` (RFC 9112 §3).
    case requestLine
    /// The status line is not `version SP status [SP reason]` (RFC 9112 §4).
    case statusLine
    /// A version other than 1.x (RFC 9112 §2.3).
    case version
    /// A carriage return or line feed without the other (RFC 9112 §2.2).
    case lineEnd
    /// A field name that is empty, not a token, or followed by white space (RFC 9112 §5.1).
    case fieldName
    /// A control character in a field value (RFC 9110 §5.5).
    case fieldValue
    /// A field line that begins with white space (RFC 9112 §5.2).
    case foldedLine
    /// The head is larger than allowed.
    case headTooLarge
    /// More fields than allowed.
    case tooManyFields
    /// The request target is longer than allowed.
    case targetTooLong
    /// No `Host`, several, or an invalid one in HTTP/1.1 (RFC 9112 §3.2).
    case host
    /// More options in `Connection` than allowed (RFC 9110 §7.6.1).
    case connectionOptions
    /// `Content-Length` that is not a plain decimal or occurs twice (RFC 9112 §6.3).
    case contentLength
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 §6.1).
    case lengthAndCoding
    /// `Transfer-Encoding` in HTTP/1.0, twice, or with `chunked` not last (RFC 9112 §6.1).
    case transferCoding
    /// A transfer coding other than `chunked` (RFC 9112 §6.1): 501.
    case unknownCoding
    /// A chunk size that is invalid or too large (RFC 9112 §7.1).
    case chunkSize
    /// A chunk extension that is too long, has no name, or is neither a token nor a quoted string (RFC 9112 §7.1.1).
    case chunkExtension
    /// A chunk without a line end after its data (RFC 9112 §7.1).
    case chunkEnd
    /// A trailer section that is too large or malformed (RFC 9112 §7.1.2).
    case trailer

    /// The value of the metric label.
    public var label: StaticString {
        switch self {
        case .requestLine: "request_line"
        case .statusLine: "status_line"
        case .version: "version"
        case .lineEnd: "line_end"
        case .fieldName: "field_name"
        case .fieldValue: "field_value"
        case .foldedLine: "folded_line"
        case .headTooLarge: "head_too_large"
        case .tooManyFields: "too_many_fields"
        case .targetTooLong: "target_too_long"
        case .host: "host"
        case .connectionOptions: "connection_options"
        case .contentLength: "content_length"
        case .lengthAndCoding: "length_and_coding"
        case .transferCoding: "transfer_coding"
        case .unknownCoding: "unknown_coding"
        case .chunkSize: "chunk_size"
        case .chunkExtension: "chunk_extension"
        case .chunkEnd: "chunk_end"
        case .trailer: "trailer"
        }
    }
}
