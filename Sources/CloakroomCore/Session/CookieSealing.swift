/// Encrypts and authenticates the content of a cookie that only the gateway reads, with AES-256-GCM under a key that is
/// used for nothing else.
///
/// The name of the cookie is part of the authenticated data: the content of one cookie is invalid in another.
/// Implemented by `CloakroomSessions`.
public protocol CookieSealing: Sendable {
    /// Seals content under the newest secret.
    /// - Returns: `nil` if the cipher fails, which is not expected.
    func seal(_ content: [UInt8], name: String) -> [UInt8]?
    /// Opens content that was sealed for the same name under a known secret.
    /// - Returns: `nil` for anything else; the reason is not revealed.
    func open(_ sealed: [UInt8], name: String) -> [UInt8]?
}
