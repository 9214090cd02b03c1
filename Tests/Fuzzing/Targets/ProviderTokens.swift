import CloakroomCore

@testable import CloakroomIdentity

extension FuzzTarget {
    /// A token in compact form, before its signature is verified (RFC 7515 §3.1). Every client can send one to the
    /// back-channel endpoint.
    static let signedTokens = FuzzTarget(
        "signed-tokens",
        words: [
            ".", "..", "=", "-", "_", "e30", "eyJhbGciOiJFUzI1NiJ9", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9",
            "eyJhbGciOiJSUzI1NiIsImNyaXQiOlsiZXhwIl19", "AAAA", "A", "\n", " ",
        ],
        times: [
            LinearTime(
                [
                    .repeated("dots", "."),
                    .repeated("one long header", "A"),
                    .repeated("a long signature", "A", prefix: "eyJhbGciOiJFUzI1NiJ9.e30."),
                    .repeated("a long payload", "AAAA", prefix: "eyJhbGciOiJFUzI1NiJ9.", suffix: ".AAAA"),
                    .made("an algorithm of combining marks") { count in
                        let text = String(repeating: "\u{301}\u{316}", count: max(1, count * 3 / 16 - 8))
                        return Array((Base64URL.encode(Array(#"{"alg":"\#(text)"}"#.utf8)) + ".e30.AAAA").utf8)
                    },
                    .made("a header with many members") { count in
                        var header = #"{"alg":"ES256""#
                        var number = 0
                        while header.utf8.count < count * 3 / 4 - 40 {
                            header += #","a\#(number)":0"#
                            number += 1
                        }
                        return Array((Base64URL.encode(Array((header + "}").utf8)) + ".e30.AAAA").utf8)
                    },
                ],
                // Longer tokens are not parsed.
                shortest: 1_000
            ) { _ = try? UnverifiedToken(parsing: $0, algorithms: Set(SignatureAlgorithm.defaults)) }
        ]
    ) { bytes throws(Violation) in
        // Clients send such tokens to prove that they have the key of their device.
        if let proof = try? DeviceProof(parsing: bytes) {
            try require(bytes.count <= DeviceFields.maxProof, "a proof that is too long")
            try require(proof.key?.count ?? 64 == 64, "a key that is not on P-256")
            try require(!proof.isSigned(by: Array(repeating: 0, count: 64)), "a signature of no key")
        }
        guard let token = try? UnverifiedToken(parsing: bytes, algorithms: Set(SignatureAlgorithm.defaults)) else {
            return
        }
        try require(bytes.count <= UnverifiedToken.maxLength, "a token that is too long")
        try require(Set(SignatureAlgorithm.defaults).contains(token.algorithm), "an algorithm that is not permitted")
        let whole = Array(token.signedBytes) + Array(("." + Base64URL.encode(token.signature)).utf8)
        try require(whole == bytes, "another token than the one that was sent")
        try require(
            bytes.allSatisfy { $0 == UInt8(ascii: ".") || Base64URL.decode([$0, UInt8(ascii: "A")]) != nil },
            "a character outside of base64url")
        try require((token.keyID?.utf8.count ?? 0) <= UnverifiedToken.maxNameLength, "a kid that is too long")
        let header = token.signedBytes.prefix { $0 != UInt8(ascii: ".") }
        guard let decoded = Base64URL.decode(header), let value = JSONValue(document: decoded) else {
            throw Violation("a header that is not JSON")
        }
        for name in ["crit", "b64", "zip", "enc"] {
            try require(value[path: name] == nil, "a header with \(name)")
        }
        try require(value[path: "alg"] == .string(token.algorithm.rawValue), "another algorithm than the header's")
    }

    /// A key set of a provider (RFC 7517 §5).
    static let keySets = FuzzTarget(
        "key-sets",
        words: [
            #"{"keys":["#, "]}", #""kty":"RSA""#, #""kty":"EC""#, #""kty":"OKP""#, #""kty":"oct""#, #""crv":"P-256""#,
            #""crv":"P-521""#, #""crv":"Ed25519""#, #""alg":"RS256""#, #""alg":"none""#, #""use":"sig""#,
            #""use":"enc""#, #""d":"AQ""#, #""e":"AQAB""#, #""x":"AQ""#, #""y":"Ag""#, #""kid":"a""#, "{}", ",", "null",
            "AAAA", "[",
        ],
        times: [
            LinearTime(
                JSONTexts.families + [
                    .repeated("strange keys", "{},", prefix: #"{"keys":["#, suffix: "0]}"),
                    .repeated(
                        "a long modulus", "w", prefix: #"{"keys":[{"kty":"RSA","e":"AQAB","n":""#, suffix: #""}]}"#),
                    .repeated(
                        "zeros", "A", prefix: #"{"keys":[{"kty":"EC","crv":"P-256","y":"AQ","x":""#, suffix: #""}]}"#),
                ]
            ) { _ = try? JSONWebKeySet(document: $0) }
        ]
    ) { bytes throws(Violation) in
        guard let set = try? JSONWebKeySet(document: bytes) else { return }
        try require(bytes.count <= JSONWebKeySet.maxLength, "a document that is too long")
        try require(set.keys.count + set.skipped.count <= JSONWebKeySet.maxKeys, "too many keys")
        for key in set.keys {
            switch key.material {
            case .rsa(let modulus, let exponent):
                try require((256...1_024).contains(modulus.count) && modulus.first != 0, "a modulus of a wrong length")
                try require((1...4).contains(exponent.count) && exponent != [1], "an exponent of no key")
            case .curve(let curve, let x, let y):
                try require(
                    x.count == curve.coordinateLength && y.count == curve.coordinateLength,
                    "a coordinate of a wrong length")
            case .ed25519(let bytes):
                try require(bytes.count == 32, "an Ed25519 key of a wrong length")
            }
            try require(key.algorithm.map { $0.keyType == key.material.type } ?? true, "an algorithm of another type")
            try require((key.id?.utf8.count ?? 0) <= JSONWebKey.maxIDLength, "a kid that is too long")
        }
    }

    /// The claims of a token whose signature is valid: no payload may pass as two kinds of token.
    static let tokenClaims = FuzzTarget(
        "token-claims",
        words: [
            "{", "}", ",", #""iss":"https://id.example.com""#, #""aud":"cloakroom""#, #""aud":["cloakroom"]"#,
            #""aud":[]"#, #""azp":"cloakroom""#, #""sub":"jo""#, #""sid":"s""#, #""exp":1800000300"#,
            #""iat":1800000000"#, #""nbf":1e400"#, #""nonce":"n""#, #""auth_time":0"#, #""jti":"t""#, #""acr":"a""#,
            #""events":{"http://schemas.openid.net/event/backchannel-logout":{}}"#, "null", "-1", "1e30", "0.5", "[]",
        ],
        times: [
            LinearTime(
                JSONTexts.families + [
                    .repeated("audiences", #""cloakroom","#, prefix: #"{"aud":["#, suffix: #""cloakroom"]}"#)
                ],
                // Longer tokens are not parsed.
                shortest: 750
            ) { _ = Claims.kinds($0) }
        ]
    ) { bytes throws(Violation) in
        let kinds = Claims.kinds(bytes)
        let idToken = kinds.signIn ?? kinds.refresh
        try require(idToken == nil || kinds.logout == nil, "an ID token that is a logout token")
        if let token = idToken {
            try require(
                (1...255).contains(token.subject.utf8.count)
                    && token.subject.utf8.allSatisfy { (0x21...0x7e).contains($0) },
                "a subject that is not visible ASCII")
            try require(token.expiresAt > Claims.now - .seconds(30), "an expired ID token")
            try require(token.issuedAt <= Claims.now + .seconds(30), "an ID token of the future")
            try require(token.authenticatedAt.map { $0.milliseconds > 0 } ?? true, "a sign-in at no time")
            try require(token.claims["iss"] == .string("https://id.example.com"), "another issuer")
        }
        if let token = kinds.signIn {
            try require(token.nonceHash == IDTokenRules.hash(Array("n".utf8)), "another nonce")
            try require(token.issuedAt >= Claims.start - .seconds(30), "an ID token of another sign-in")
        }
        if let token = kinds.logout {
            try require(
                token.issuedAt >= Claims.now - .seconds(120) && token.issuedAt <= Claims.now + .seconds(30),
                "a logout token of another time")
            try require(!token.id.isEmpty && token.replayableUntil > Claims.now, "a logout token without a mark")
            try require(token.session != nil || token.subject != nil, "a logout token for no session")
            try require(token.session != "" && token.subject != "", "a logout token for an empty name")
        }
    }
}

private enum Claims {
    static let start = WallTime(seconds: 1_800_000_000)
    static let now = WallTime(seconds: 1_800_000_010)
    private static let provider = ProviderIdentity(
        issuer: "https://id.example.com", clientID: "cloakroom", clockSkew: .seconds(30))
    private static let signIn = IDTokenRules.SignIn(
        nonce: Secret("n"), startedAt: start, requiresAuthenticationTime: false, accessToken: Secret("a"))
    private static let refresh = IDTokenRules.Refresh(
        subject: "jo", authenticatedAt: nil, nonceHash: nil, accessToken: Secret("a"))

    /// The kinds of token that a payload passes as.
    static func kinds(_ payload: [UInt8]) -> (signIn: IDToken?, refresh: IDToken?, logout: LogoutToken?) {
        guard let token = try? VerifiedToken(unverified: payload, algorithm: .es256, type: .jwt) else {
            return (nil, nil, nil)
        }
        let rules = IDTokenRules(provider: provider)
        return (
            try? rules.check(token, of: signIn, now: now), try? rules.check(token, of: refresh, now: now),
            try? LogoutTokenRules(provider: provider).check(token, now: now)
        )
    }
}
