package import CloakroomCore

/// Validates the key files of clients for the start, for reloads and for `check-config`.
package enum ClientKeyValidator {
    /// Reads the key files of all identities with `private_key_jwt`.
    /// - Returns: One error with a suggestion for each file that has no key for the algorithm.
    package static func findings(in configuration: GatewayConfiguration) -> [ConfigFinding] {
        configuration.identities.compactMap { identity in
            guard case .privateKey(let key) = identity.client.authentication else { return nil }
            do throws(ClientKeyError) {
                _ = try ClientAssertionSigner(
                    key, clientID: identity.client.id, audience: { nil }, clock: { Timestamp(seconds: 0) })
                return nil
            } catch {
                return ConfigFinding(
                    key: ["identities", identity.name, "client", "keyFile"], message: error.message,
                    suggestion: error.suggestion)
            }
        }
    }
}
