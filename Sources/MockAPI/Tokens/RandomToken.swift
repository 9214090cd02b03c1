/// Opaque tokens: 32 bytes of the system's secure random source as 43 characters of base 64 URL.
enum RandomToken {
    static func make() -> String {
        var random = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }
}
