/// Runs a test, and then stops what it has used, also if it throws.
package func stopping<Value>(_ stop: () async -> Void, after test: () async throws -> Value) async throws -> Value {
    do {
        let value = try await test()
        await stop()
        return value
    } catch {
        await stop()
        throw error
    }
}
