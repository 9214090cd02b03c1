/// A certificate that a listener presents, for operators.
public struct CertificateStatus: Sendable, Equatable {
    /// The listener's address as configured.
    public var listener: String
    /// The file that the certificate was read from.
    public var file: String
    /// The DNS names that the certificate was issued for.
    public var names: [String]
    /// When the certificate expires.
    public var notAfter: Timestamp

    /// Creates a status.
    public init(listener: String, file: String, names: [String], notAfter: Timestamp) {
        self.listener = listener
        self.file = file
        self.names = names
        self.notAfter = notAfter
    }
}
