/// The response to `POST /auth` and `POST /auth/refresh`.
struct TokenPair: Encodable, Redacted {
    let accessToken: String
    let refreshToken: String
}

/// The response to `POST /api/v1/signin`, the older API: without refresh token and lifetime.
struct AccessTokenOnly: Encodable, Redacted {
    let accessToken: String
}
