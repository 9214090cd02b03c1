/// The access token that was accepted last on a connection. Its clients repeat it, and comparing it costs a twentieth of
/// hashing it.
package struct AcceptedToken: Sendable, Unprintable {
    /// The maximum length of a field that is kept, in bytes: connections may be idle for long.
    package static let maxLength = 2_048

    private var field = Secret(bytes: [])
    private var site = 0
    private var key = SessionKey(0, 0, 0, 0)

    package init() {}

    /// The key of its session; `nil` for another field or site.
    package func key(of field: Span<UInt8>, site: Int) -> SessionKey? {
        !self.field.isEmpty && site == self.site && self.field.bytes.span.isSameSecret(as: field) ? key : nil
    }

    /// Keeps the field of a session, unless it is long.
    package mutating func keep(_ field: Secret, of session: Session, site: Int) {
        guard field.bytes.count <= Self.maxLength else { return }
        (self.field, self.site, key) = (field, site, session.key)
    }
}
