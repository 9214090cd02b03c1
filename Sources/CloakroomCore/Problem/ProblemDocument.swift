public import CloakroomWire

/// A serialized problem, complete except for the request id, which is inserted between the two parts.
///
/// The problems of a route are serialized when the configuration is loaded, so that rejecting a request is cheap.
public struct ProblemDocument: Sendable, Equatable {
    /// The problem.
    public let problem: Problem
    /// The document up to the request id.
    public let prefix: [UInt8]
    /// The document after the request id.
    public let suffix: [UInt8]

    /// Serializes a problem (RFC 9457 §3). Its type is a name that does not resolve: `urn:cloakroom:problem:` and the
    /// code.
    public init(_ problem: Problem) {
        self.problem = problem
        var text = "{\"type\":\"urn:cloakroom:problem:\(problem.code.rawValue)\",\"title\":"
        Self.appendJSON(problem.title, to: &text)
        text += ",\"status\":\(problem.status),\"detail\":"
        Self.appendJSON(problem.detail, to: &text)
        text += ",\"code\":\"\(problem.code.rawValue)\""
        if let reason = problem.reason { text += ",\"reason\":\"\(reason.rawValue)\"" }
        text += ",\"request_id\":\""
        prefix = Array(text.utf8)
        suffix = Array("\"}\n".utf8)
    }

    /// Appends a quoted JSON string with escapes (RFC 8259 §7).
    public static func appendJSON(_ string: String, to text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\u{0}"..."\u{1f}", "\u{7f}":
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

extension Problem {
    /// Creates the response to a malformed message.
    public init(_ error: WireError) {
        switch error {
        case .headTooLarge, .tooManyFields: self.init(.headerFieldsTooLarge)
        case .targetTooLong: self.init(ProblemCode.targetTooLong)
        case .unknownCoding: self.init(.notImplemented)
        case .version: self.init(.versionNotSupported)
        default: self.init(.badRequest)
        }
    }
}
