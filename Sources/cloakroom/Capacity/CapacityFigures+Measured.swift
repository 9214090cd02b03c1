extension CapacityFigures {
    /// The figures of `Benchmarks/capacity.json`, with which this file is written by `Benchmarks/capacity.py`:
    /// valkey 9.1, 2 cores, x86_64, shared with other programs.
    static let measured = CapacityFigures(
        // Benchmarks/capacity.py costs
        request: OperationCost(
            gatewayMicroseconds: 25.8, serverMicroseconds: 0,
            bytesToServer: 0, bytesFromServer: 0),
        lookUp: OperationCost(
            gatewayMicroseconds: 82, serverMicroseconds: 12.5,
            bytesToServer: 60, bytesFromServer: 922.4),
        providerLookUp: OperationCost(
            gatewayMicroseconds: 92.9, serverMicroseconds: 13.5,
            bytesToServer: 59.9, bytesFromServer: 1_799.7),
        touch: OperationCost(
            gatewayMicroseconds: 26.1, serverMicroseconds: 14.1,
            bytesToServer: 155.8, bytesFromServer: 4.8),
        refresh: OperationCost(
            gatewayMicroseconds: 791.8, serverMicroseconds: 148.8,
            bytesToServer: 1_933.9, bytesFromServer: 960.4),
        signIn: OperationCost(
            gatewayMicroseconds: 1_038.5, serverMicroseconds: 283.1,
            bytesToServer: 2_737.1, bytesFromServer: 1_941.6),
        signOut: OperationCost(
            gatewayMicroseconds: 453.4, serverMicroseconds: 90.8,
            bytesToServer: 462, bytesFromServer: 1_854.2),
        login: OperationCost(
            gatewayMicroseconds: 2_873.8, serverMicroseconds: 320.7,
            bytesToServer: 2_891.9, bytesFromServer: 8_311.4),
        gatewayBytes: 44_859_392,
        gatewayBytesPerPasswordSession: 935,
        gatewayBytesPerProviderSession: 2_548,
        serverBytes: 6_623_232,
        // Benchmarks/capacity.py memory
        serverBytesPerPasswordSession: 1_692,
        serverBytesPerProviderSession: 2_605,
        serverBytesPerTrackedSession: 173,
        serverBytesPerFurtherGateway: 72)
}
