/// A certificate that a listener shows, for operators.
public struct CertificateStatus: Sendable, Equatable {
    /// The listener's address as configured.
    public var listener: String
    /// The file that it was read from.
    public var file: String
    /// The DNS names that it is made out to.
    public var names: [String]
    /// When it expires.
    public var notAfter: Timestamp

    /// Makes a status.
    public init(listener: String, file: String, names: [String], notAfter: Timestamp) {
        self.listener = listener
        self.file = file
        self.names = names
        self.notAfter = notAfter
    }
}
