import NIOPosix

/// Why no connection could be made, in words for operators.
enum ConnectFailureReason {
    /// The most characters of it.
    static let limit = 200

    /// The kind of failure and what the system or TLS said. Other people's words may be in it, such as names out of a
    /// certificate, so control characters are not.
    static func text(_ kind: UpstreamFailure.Kind, _ error: any Error) -> String {
        var text = String.UnicodeScalarView()
        // Scalars and not characters: one character may be as long as its sender likes.
        for scalar in "\(kind): \(cause(of: error))".unicodeScalars.prefix(limit) {
            text.append(scalar.properties.generalCategory == .control ? " " : scalar)
        }
        return String(text)
    }

    /// NIO lists every address that it tried; the last one's error says it.
    private static func cause(of error: any Error) -> any Error {
        guard let error = error as? NIOConnectionError else { return error }
        return error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError ?? error
    }
}
