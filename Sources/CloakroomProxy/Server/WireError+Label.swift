import CloakroomWire

extension WireError {
    /// The value of the metric label.
    var label: StaticString {
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
