import NIOPosix

/// Reason of a failed connection attempt, as text for operators.
enum ConnectFailureReason {
    /// Maximum length in Unicode scalars.
    static let limit = 200

    /// The kind of failure and the message of the system or of TLS. The message may contain untrusted text, such as
    /// names from a certificate, so control characters are replaced with spaces.
    static func text(_ kind: UpstreamFailure.Kind, _ error: any Error) -> String {
        var text = String.UnicodeScalarView()
        // Scalars, not characters: the length of a character is unbounded.
        for scalar in "\(kind): \(cause(of: error))".unicodeScalars.prefix(limit) {
            text.append(scalar.properties.generalCategory == .control ? " " : scalar)
        }
        return String(text)
    }

    /// NIO lists the errors of all addresses tried; the last one is reported.
    private static func cause(of error: any Error) -> any Error {
        guard let error = error as? NIOConnectionError else { return error }
        return error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError ?? error
    }
}
