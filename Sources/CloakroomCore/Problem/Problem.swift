package import CloakroomWire

/// An error response for the client: `application/problem+json` (RFC 9457).
///
/// Folder `Problem/`: all error responses of the gateway, with their statuses, codes, and the reasons of a 401.
public struct Problem: Sendable, Hashable {
    /// The status.
    public var status: Int
    /// The kind of the problem.
    public var code: ProblemCode
    /// A sentence for the user.
    public var detail: String
    /// The reason of a 401.
    public var reason: UnauthorizedReason?
    /// Seconds after which a retry is reasonable: `Retry-After` (RFC 9110 §10.2.3).
    public var retryAfter: Int?

    /// Creates a problem. Status and sentence default to those of the code.
    public init(
        _ code: ProblemCode, status: Int? = nil, detail: String? = nil, reason: UnauthorizedReason? = nil,
        retryAfter: Int? = nil
    ) {
        self.code = code
        self.status = status ?? code.status
        self.detail = detail ?? code.defaultDetail
        self.reason = reason
        self.retryAfter = retryAfter
    }

    /// The name of the status, which is the problem's title.
    public var title: String { Self.title(of: status) }

    /// The name of a status (RFC 9110 §15).
    /// - Parameter unknown: The name of other statuses.
    public static func title(of status: Int, unknown: String = "Error") -> String {
        switch status {
        case 100: "Continue"
        case 103: "Early Hints"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 206: "Partial Content"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 303: "See Other"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 416: "Range Not Satisfiable"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        default: unknown
        }
    }
}

/// A serialized problem, complete except for the request id, which is inserted between the two parts.
///
/// The problems of a route are serialized when the configuration is loaded, so that rejecting a request is cheap.
public struct ProblemDocument: Sendable, Equatable {
    /// The problem. Its wait may change: it is a field of the response and not part of the document.
    public var problem: Problem
    /// The document up to the request id.
    public let prefix: [UInt8]
    /// The document after the request id.
    public let suffix: [UInt8]

    /// Serializes a problem (RFC 9457 §3). Its type is a name that does not resolve: `urn:cloakroom:problem:` and the
    /// code.
    /// - Parameters:
    ///   - login: The member `login`: the path at the gateway where the user can remove the problem.
    ///   - limit: The member `violated-policies`: the name of a rate limit
    ///     (draft-ietf-httpapi-ratelimit-headers-10, problem types).
    public init(_ problem: Problem, login: String? = nil, limit: String? = nil) {
        self.problem = problem
        let link = login.map { ",\"login\":\(JSONString.quoted($0))" } ?? ""
        let policies = limit.map { ",\"violated-policies\":[\(JSONString.quoted($0))]" } ?? ""
        prefix = Array("{\(Self.members(problem))\(link)\(policies),\"request_id\":\"".utf8)
        suffix = Array("\"}\n".utf8)
    }

    /// Serializes a problem without a request id.
    public static func withoutRequestID(_ problem: Problem) -> [UInt8] {
        Array("{\(members(problem))}\n".utf8)
    }

    private static func members(_ problem: Problem) -> String {
        var text = "\"type\":\"urn:cloakroom:problem:\(problem.code.rawValue)\""
        text += ",\"title\":\(JSONString.quoted(problem.title)),\"status\":\(problem.status)"
        text += ",\"detail\":\(JSONString.quoted(problem.detail)),\"code\":\"\(problem.code.rawValue)\""
        if let reason = problem.reason { text += ",\"reason\":\"\(reason.rawValue)\"" }
        return text
    }
}

extension Problem {
    package init(_ error: WireError) {
        switch error {
        case .headTooLarge, .tooManyFields: self.init(.headerFieldsTooLarge)
        case .targetTooLong: self.init(ProblemCode.targetTooLong)
        case .unknownCoding: self.init(.notImplemented)
        case .version: self.init(.versionNotSupported)
        default: self.init(.badRequest)
        }
    }
}
