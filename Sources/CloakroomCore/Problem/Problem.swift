/// An error as the client gets it: `application/problem+json` (RFC 9457).
public struct Problem: Sendable, Hashable {
    /// The status.
    public var status: Int
    /// What went wrong, as a word.
    public var code: ProblemCode
    /// What went wrong, as a sentence for the person in front of the screen.
    public var detail: String
    /// On a 401: why.
    public var reason: UnauthorizedReason?
    /// Seconds after which trying again makes sense: `Retry-After` (RFC 9110 §10.2.3).
    public var retryAfter: Int?

    /// Makes a problem. The status and the sentence are the code's own unless given.
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

    /// The name of the status (RFC 9110 §15), which is the problem's title.
    public var title: String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 422: "Unprocessable Content"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        default: "Error"
        }
    }
}
